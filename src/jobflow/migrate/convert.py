"""Objects of Argo Workflows as objects of JobFlow."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from jobflow.api.resources import CRONJOBFLOWS, JOBFLOWS
from jobflow.client.manifests.objects import Manifest
from jobflow.client.manifests.sources import SourcePlace
from jobflow.core.admission.object_names import to_valid_name
from jobflow.core.names import MAX_NAME
from jobflow.migrate.fields import Budget, Field, Findings, TooLargeError
from jobflow.migrate.steps.task import COMMENT
from jobflow.migrate.templates import CLUSTER, library_of
from jobflow.migrate.workflow import Files, flow_spec

GROUP = "argoproj.io/"
_TEMPLATES = ("WorkflowTemplate", CLUSTER)
_BOOKKEEPING = ("workflows.argoproj.io/", "kubectl.kubernetes.io/")
_METADATA = ("name", "generateName", "namespace", "labels", "annotations")
# Work for all objects of a file: about 150 for each step of the largest flow, and some seconds.
_MOST_WORK = 1_200_000
_TOO_LARGE = (
    "is not converted: it, or what is before it, is larger than any flow; templates that call "
    "others several times multiply them"
)
_OF_CRONS = {
    "timezone": "timeZone",
    "concurrencyPolicy": "concurrencyPolicy",
    "startingDeadlineSeconds": "startingDeadlineSeconds",
    "suspend": "suspend",
    "successfulJobsHistoryLimit": "successfulJobsHistoryLimit",
    "failedJobsHistoryLimit": "failedJobsHistoryLimit",
}
_LONGEST_SUFFIX = len("-main-0")


@dataclass(slots=True)
class Converted:
    """One object of Argo, the objects for it, and what is to be said about it."""

    manifest: Manifest
    findings: Findings
    objects: list[dict[str, Any]] = field(default_factory=list)

    @property
    def root(self) -> Field:
        place = self.manifest.place("kind", of_key=True)
        return Field(self.manifest.node, "", place, self.findings)

    def place_of(self, path: str, obj: Mapping[str, Any]) -> SourcePlace:
        """Return the place in Argo's file that a path of a converted object comes from."""
        found: Any = obj
        place = self.manifest.place("metadata")
        for key in path.replace("[", ".").replace("]", "").split("."):
            if isinstance(found, list) and key.isdigit():
                found = found[int(key)]
            else:
                found = found.get(key) if isinstance(found, dict) else None
            # Steps are known by their names; other objects with names have no place of their own.
            if isinstance(found, dict) and "name" in found:
                place = self.findings.origins.get(str(found["name"]), place)
        return place


def convert(manifests: Iterable[Manifest]) -> list[Converted]:
    """Convert all objects of Argo; others in the same files are used for what they define."""
    listed = [*manifests]
    # One for all objects of a file, so that no file takes long by having many.
    budgets = {
        each.source: Budget(_MOST_WORK * max(1, len(each.source.text) >> 20)) for each in listed
    }
    converted = [
        Converted(each, findings=Findings(budgets[each.source]))
        for each in listed
        if str(each.api_version).startswith(GROUP)
    ]
    files = Files()
    for manifest in listed:
        data = manifest.data.get("data")
        if manifest.kind == "ConfigMap" and isinstance(data, dict):
            files.config_maps[manifest.name] = data
    # Templates of all files first, because workflows name those of others.
    for each in converted:
        with _reported(each):
            spec = each.root.get("spec")
            if each.manifest.kind in _TEMPLATES and spec is not None:
                key = (each.manifest.name, each.manifest.kind == CLUSTER)
                files.templates[key] = library_of(spec, files.templates)
    for each in converted:
        with _reported(each):
            each.objects = [*_objects(each, each.root, files)]
    for each in converted:
        each.findings.budget.left = math.inf
    # After all are converted, because a workflow reads templates of others.
    for each in converted:
        each.root.report_unread()
    return converted


@contextmanager
def _reported(converted: Converted) -> Iterator[None]:
    """Report that an object is not converted if it takes more work than is left."""
    budget = converted.findings.budget
    try:
        yield
    except TooLargeError:
        # The report itself reads the object, and takes work too.
        budget.left = math.inf
        converted.root.gap(_TOO_LARGE)
        budget.left = 0


def _objects(converted: Converted, root: Field, files: Files) -> Iterator[dict[str, Any]]:
    manifest, kind = converted.manifest, converted.manifest.kind
    # Every object has these; `metadata` is read below by its entries.
    for key in ("apiVersion", "kind", "metadata"):
        root.get(key)
    for status in root.present("status"):
        status.note("is left out: it is about a run of Argo")
    spec, metadata = root.get("spec"), _metadata(root)
    original = manifest.data.get("metadata") or {}
    if spec is None:
        root.gap("has no spec")
        return
    if kind not in ("Workflow", "CronWorkflow", *_TEMPLATES):
        root.gap(f"{kind} has no equal: a flow is started by jobflow submit or a CronJobFlow")
        return
    if kind == "CronWorkflow":
        yield from _crons(spec, metadata, original, files)
        return
    if kind in _TEMPLATES:
        if spec.get("entrypoint") is None:
            root.note("has no entrypoint: its templates are copied into the flows that use them")
            spec.take()
            return
        # A WorkflowTemplate is submitted several times, and its name is only the beginning of each.
        name = metadata.pop("name", "")
        metadata = {"generateName": f"{name}-"} | metadata
    found = flow_spec(spec, original, files)
    if comments := converted.findings.comments.pop("", None):
        metadata = {COMMENT: [*comments]} | metadata
    _shorten(metadata, found, root)
    yield {**JOBFLOWS.type_meta, "metadata": metadata, "spec": found}


def _metadata(root: Field) -> dict[str, Any]:
    metadata = root.get("metadata")
    found: dict[str, Any] = {}
    for key, value in metadata.entries() if metadata is not None else ():
        root.at("metadata", key)
        data = value.data
        if key in ("labels", "annotations") and isinstance(data, dict):
            kept = {k: v for k, v in data.items() if not k.startswith(_BOOKKEEPING)}
            if kept != data:
                value.note("what is about Argo is left out")
            if kept:
                found[key] = kept
        elif key in _METADATA:
            found[key] = data
        else:
            value.note("is left out: the API server writes it")
    return found


def _crons(
    spec: Field, metadata: dict[str, Any], original: Mapping[str, Any], files: Files
) -> Iterator[dict[str, Any]]:
    common = {ours: each.data for key, ours in _OF_CRONS.items() for each in spec.present(key)}
    for condition in spec.present("when", "stopStrategy"):
        condition.gap("a schedule has no condition: test it in a first step")
    template: dict[str, Any] = {}
    if (described := spec.get("workflowMetadata")) is not None:
        template["metadata"] = described.data
    workflow = spec.get("workflowSpec")
    if workflow is None:
        spec.gap("has no workflowSpec")
        return
    flow = flow_spec(workflow, original, files, scheduled=True)
    _shorten(metadata, flow, spec, suffix=len("-manual-00000"))
    schedules = [each.data for each in spec.present("schedule")]
    for several in spec.present("schedules"):
        schedules = [each.data for each in several.items()]
    # Argo has several schedules for one workflow, a CronJobFlow has one.
    for number, schedule in enumerate(map(str, schedules), 1):
        spec.findings.budget.spend(spec.node.size)
        named = dict(metadata)
        if len(schedules) > 1:
            named["name"] = f"{metadata.get('name', 'cron')}-{number}"
        own = {"schedule": schedule} | common | {"jobFlowTemplate": template | {"spec": flow}}
        yield {**CRONJOBFLOWS.type_meta, "metadata": named, "spec": own}


def _shorten(
    metadata: dict[str, Any], flow: Mapping[str, Any], place: Field, suffix: int = 0
) -> None:
    """Shorten the name of a flow so that the names of its pods are short enough."""
    key = "name" if "name" in metadata else "generateName"
    name = str(metadata.get(key, "flow"))
    # The API server adds five characters.
    suffix += 5 if key == "generateName" else 0
    room = MAX_NAME - _LONGEST_SUFFIX - suffix - _longest(flow)
    valid = name if to_valid_name(name) == name.rstrip("-") else to_valid_name(name)
    if key == "generateName" and not valid.endswith("-"):
        valid += "-"
    if len(valid) > room:
        valid = valid[: max(room - 1, 8)].rstrip("-.") + ("-" if key == "generateName" else "")
    if valid != name:
        place.check(
            f'the flow is named "{valid}", because names of pods have at most 63 characters'
        )
        metadata[key] = valid


def _longest(flow: Mapping[str, Any]) -> int:
    """Return the most characters that the steps of a flow add to its name."""
    lengths = [0]
    for step in (*flow.get("flows", ()), *flow.get("finally", ())):
        length = 1 + len(str(step.get("name", "")))
        # A dash and an index of up to three digits; numbers of attempts begin with -r.
        length += 4 if "forEach" in step or "repeat" in step else 0
        length += len("-r100") if "retry" in step else len("-r1")
        lengths.append(length + (_longest(step["flow"]) if "flow" in step else 0))
    return max(lengths)
