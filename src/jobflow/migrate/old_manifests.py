"""Manifests from before JobFlow moved into Volcano: with the API group of vcjobs, and names that
are refused today. Nodes are changed in place, so that faults of the result have the old places."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain

from jobflow.api.flow.jobflow import STEP_LISTS
from jobflow.api.kinds import KINDS
from jobflow.api.resources import JOBFLOWS, JOBS, JOBTEMPLATES
from jobflow.client.errors import print_error
from jobflow.client.manifests.check import meant_key, to_typed
from jobflow.client.manifests.objects import Manifest
from jobflow.client.manifests.yaml_nodes import ListNode, MappingNode, ScalarNode
from jobflow.core.admission.object_names import all_names, to_valid_name
from jobflow.core.text import printable

_SERVER_METADATA = (
    *("uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp"),
    *("deletionGracePeriodSeconds", "managedFields", "selfLink"),
)


def migrate_old(manifests: Sequence[Manifest], *, quiet: bool) -> list[Manifest]:
    """Change old manifests, print each change, and return all of them."""
    # Today they have a group of their own.
    old = [
        manifest
        for manifest in manifests
        if manifest.api_version == JOBS.api_version and manifest.kind in KINDS
    ]
    for manifest in old:
        _set_text(manifest, "apiVersion", JOBFLOWS.api_version)
        _rename_keys(manifest)
        if "status" in manifest.node.entries:
            _note(manifest, "status", "is dropped")
            del manifest.node.entries["status"]
        metadata = manifest.node_at("metadata")
        for key in _SERVER_METADATA:
            if isinstance(metadata, MappingNode) and key in metadata.entries:
                _note(manifest, f"metadata.{key}", "is dropped")
                del metadata.entries[key]
    flows = [each for each in old if each.kind == JOBFLOWS.kind]
    _rename(("metadata.name", flow) for flow in flows)
    # Steps and templates together, because a step runs the template of its name.
    declared = [("metadata.name", each) for each in old if each.kind == JOBTEMPLATES.kind]
    references: list[tuple[str, Manifest]] = []
    for flow in flows:
        lists = (_paths(flow, f"spec.{key}") for key in STEP_LISTS.values())
        for path in chain.from_iterable(lists):
            declared += [(f"{path}.{key}", flow) for key in ("name", "template")]
            targets = _paths(flow, f"{path}.dependsOn.targets")
            references += [(each, flow) for each in targets]
    _rename(declared, references)
    if not (old or quiet):
        sentence = f"the files contain no workflow of Argo and no JobFlow of {JOBS.api_version}"
        print_error(f"{sentence}: nothing is changed", severity="info")
    # Copies, because the nodes have changed and a manifest keeps what it has read of them.
    return [replace(manifest) for manifest in manifests]


def _set_text(manifest: Manifest, path: str, text: str) -> None:
    node = manifest.node_at(path)
    if isinstance(node, ScalarNode) and node.value != text:
        _note(manifest, path, f'"{node.value}" is now "{text}"')
        node.value = text


def _rename_keys(manifest: Manifest) -> None:
    """Mend keys that differ from a field only in the case of letters."""
    # A copy, because reading it as the API does adds keys to the nodes.
    typed = to_typed(copy.deepcopy(manifest))
    for violation in typed.violations if typed is not None else ():
        new, keys = meant_key(violation), manifest.keys(violation.path)
        if not keys or new is None or str(keys[-1]).casefold() != new.casefold():
            continue
        parent = manifest.node_at(violation.path.rpartition(".")[0])
        # Renamed in their order, as the file has them.
        if isinstance(parent, MappingNode) and new not in parent.entries:
            _note(manifest, violation.path, f"is now {new}")
            parent.entries = {
                new if key == keys[-1] else key: entry for key, entry in parent.entries.items()
            }


def _rename(
    declared: Iterable[tuple[str, Manifest]], references: Iterable[tuple[str, Manifest]] = ()
) -> None:
    """Replace invalid names by valid ones, unless two would become the same, which lint reports."""
    declared = [(path, each) for path, each in declared if _text(each, path)]
    texts = dict.fromkeys(_text(each, path) for path, each in declared)
    forms = {text: text if all_names([text]) else to_valid_name(text) for text in texts}
    taken = list(forms.values())
    names = {text: form for text, form in forms.items() if form and taken.count(form) == 1}
    for path, manifest in declared:
        text = _text(manifest, path)
        _set_text(manifest, path, names.get(text, text))
    for path, manifest in references:
        text = _text(manifest, path)
        form = names.get(text) or to_valid_name(text)
        if form in names.values():
            _set_text(manifest, path, form)


def _note(manifest: Manifest, path: str, change: str) -> None:
    sentence = f"{manifest.place(path, of_key=True)}: {path} {change}"
    print_error(printable(sentence), severity="info")


def _text(manifest: Manifest, path: str) -> str:
    node = manifest.node_at(path)
    return node.value if isinstance(node, ScalarNode) and isinstance(node.value, str) else ""


def _paths(flow: Manifest, path: str) -> list[str]:
    listed = flow.node_at(path)
    count = len(listed.items) if isinstance(listed, ListNode) else 0
    return [f"{path}[{i}]" for i in range(count)]
