"""`jobflow lint`, `convert` and `migrate`: manifests that are checked, or turned into others."""

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby, islice
from typing import Any

from jobflow.api import labels
from jobflow.api.flow.cronjobflow import CronJobFlow
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.kinds import KINDS
from jobflow.api.resources import JOBS, JOBTEMPLATES, Resource
from jobflow.client.errors import FAILED, SUCCESS, UNUSABLE, CommandError, exit_on, print_error
from jobflow.client.manifests.check import check, check_files
from jobflow.client.manifests.objects import Manifest, Manifests, load
from jobflow.client.manifests.sources import UNREADABLE, ManifestFault
from jobflow.client.manifests.write_yaml import write_yaml
from jobflow.client.manifests.yaml_nodes import MappingEntry, ScalarNode
from jobflow.client.options import FileOptions
from jobflow.core.admission.applied_nulls import WAYS, null_places
from jobflow.core.json_values import maps
from jobflow.core.manifests.job import is_inherited
from jobflow.core.text import join_names, printable
from jobflow.core.violations import MAX_FINDINGS, Reason
from jobflow.display.console import make_console
from jobflow.display.formats import print_json
from jobflow.display.report import first_of_each_file, print_faults, print_report, print_warnings

_RESULTS = {
    (each.api_version, each.kind): other
    for each, other in ((JOBS, JOBTEMPLATES), (JOBTEMPLATES, JOBS))
}
_CREATED_BY = frozenset({labels.CREATED_BY_FLOW, labels.CREATED_BY_TEMPLATE})
_FOR_PYTHON = f"-o python reads {join_names(KINDS)} of {JOBTEMPLATES.api_version}"


def lint_files(files: FileOptions, *, as_json: bool) -> int:
    with exit_on(UNUSABLE, CommandError):
        report = check_files(files)
    # the webhook never sees these nulls, so no rule can be about them
    detail = f"kubectl apply removes this null before it sends the object; {WAYS}"
    for typed in report.typed:
        if isinstance(typed.object, JobFlow | CronJobFlow):
            manifest = typed.manifest
            for path in islice(null_places(typed.object), MAX_FINDINGS):
                place = manifest.place(path)
                warning = ManifestFault(place, "", detail, path, typed.kind, manifest.name)
                report.warnings.append(warning)
    if as_json:
        shown, others = first_of_each_file(report.faults, MAX_FINDINGS)
        print(json.dumps([fault.as_json() for fault in shown], indent=2))
        # stdout has the faults and nothing else
        print_error(*others, severity="warning")
        print_warnings(report, make_console(stderr=True))
    else:
        print_report(report, make_console())
    if any(fault.reason == UNREADABLE for fault in report.faults):
        return UNUSABLE
    return FAILED if report.faults else SUCCESS


def convert_files(files: Sequence[str]) -> int:
    """Print the converted objects of FILEs as YAML, or all faults if there are any."""
    manifests = load(files, sys.stdin.buffer)
    unknown, reports = [], []
    for each in manifests.objects:
        if _result(each) is not None:
            # both kinds have the spec of JobTemplates; the faults have the places of the file
            place, entries = each.node.span, dict(each.node.entries)
            for key, value in (("apiVersion", JOBTEMPLATES.api_version), ("kind", "JobTemplate")):
                entries[key] = MappingEntry(place, ScalarNode(place, value))
            template = replace(each, node=replace(each.node, entries=entries))
            reports.append(check(Manifests([each.source], [template]), lenient=True))
        else:
            advice = "-o python writes it as Python"
            if each.kind not in KINDS:
                advice = f"convert reads Jobs of {JOBS.api_version} and JobTemplates of "
                advice += JOBTEMPLATES.api_version
            unknown.append(_unknown(each, advice))
    faults = [*manifests.faults, *unknown, *(fault for each in reports for fault in each.faults)]
    errors = make_console(stderr=True)
    print_faults(faults, errors)
    for report in reports:
        print_warnings(report, errors)
    if faults:
        return UNUSABLE if manifests.faults else FAILED
    write_yaml([*map(_converted, manifests.objects)], sys.stdout)
    return SUCCESS


def convert_to_python(files: Sequence[str]) -> int:
    """Print a Python file that makes the objects of FILEs, or all faults if there are any."""
    # only -o python writes Python
    from jobflow.cli.local.to_python import to_python

    manifests = load(files, sys.stdin.buffer)
    report = check(manifests, lenient=True)
    ours = [each for each in manifests.objects if each not in report.others]
    # other objects beside flows are usual; only files without a flow are a fault
    others = report.others if not ours else []
    faults = [*report.faults, *(_unknown(each, _FOR_PYTHON) for each in others)]
    print_faults(faults, make_console(stderr=True))
    if faults:
        return UNUSABLE if manifests.faults else FAILED
    for each in report.others:
        sentence = f"{each.place('kind')}: {each.kind} {each.name} is left out: {_FOR_PYTHON}"
        print_error(printable(sentence), severity="warning")
    # the same file in Python has to be accepted too
    is_lenient = any(fault.is_field_warning for fault in report.warnings)
    print(to_python(ours, lenient=is_lenient), end="")
    return SUCCESS


def migrate_files(files: Sequence[str], *, as_json: bool = False) -> int:
    """Print all objects of FILEs as YAML, the old ones in their new form and those of Argo as
    JobFlows; with `as_json`, what is left to do instead."""
    # the translation of Argo's workflows is as large as the rest of this command
    from jobflow.migrate.old_manifests import migrate_old
    from jobflow.migrate.report import convert_argo

    manifests = load(files, sys.stdin.buffer)
    errors = make_console(stderr=True)
    if manifests.faults:
        print_faults(manifests.faults, errors)
        return UNUSABLE
    argo = convert_argo(manifests)
    order = [argo.texts.get(id(manifest)) for manifest in manifests.objects]
    ours = [each for each in manifests.objects if id(each) not in argo.texts]
    manifests.objects = migrate_old(ours, quiet=bool(argo.converted))
    report = check(manifests)
    if as_json:
        found = [{"severity": "error"} | fault.as_json() for fault in report.faults]
        print_json(argo.as_json() + found)
    else:
        argo.print(errors)
        print_faults(report.faults, errors)
        print_warnings(report, errors)
        others, separator = iter(manifests.objects), ""
        # in the order of the files; an object of Argo that became a part of another has no text
        for is_argo, group in groupby(
            (each for each in order if each != ""), lambda text: text is not None
        ):
            print(separator, end="")
            if is_argo:
                print("---\n".join(map(str, group)), end="")
            else:
                write_yaml([next(others).data for _ in group], sys.stdout)
            separator = "---\n"
    return FAILED if report.faults or not argo.is_complete else SUCCESS


def _result(manifest: Manifest) -> Resource | None:
    return _RESULTS.get((str(manifest.api_version), str(manifest.kind)))


def _unknown(manifest: Manifest, advice: str) -> ManifestFault:
    kind = f"{manifest.kind} of {manifest.api_version}"
    message = f"cannot convert a {kind}: {advice}"
    return ManifestFault(manifest.place("kind"), Reason.NOT_SUPPORTED, message, "kind")


def _converted(manifest: Manifest) -> dict[str, Any]:
    resource = _result(manifest)
    assert resource is not None, "other kinds are faults"
    old, spec = manifest.data["metadata"], manifest.data.get("spec") or {}
    metadata: dict[str, Any] = {}
    for key in ("name", "generateName", "namespace"):
        # the API server leaves the generateName of an object that it has named
        if key in old and not (key == "generateName" and old.get("name")):
            metadata[key] = old[key]
    for key in ("labels", "annotations"):
        # the others come from tools and from JobFlow, not from the user
        given = (old.get(key) or {}).items()
        kept = {k: v for k, v in given if is_inherited(k, v) and k not in _CREATED_BY}
        if kept:
            metadata[key] = kept
    converted = resource.type_meta | {"metadata": metadata, "spec": spec}
    if resource is JOBS:
        return converted
    # changes that JobFlow made to the spec of its own vcjobs are taken back
    ttl = (old.get("annotations") or {}).get(labels.TTL_SECONDS, "")
    # the flow took the field off, so that Volcano does not delete what it needs
    if ttl.isdecimal():
        spec.setdefault("ttlSecondsAfterFinished", int(ttl))
    templates = maps([task.get("template") for task in maps(spec.get("tasks"))])
    for pod in maps([template.get("metadata") for template in templates]):
        own = pod.get("labels")
        if isinstance(own, dict):
            for name in [each for each in own if each in _CREATED_BY or not is_inherited(each, "")]:
                del own[name]
            if not own:
                del pod["labels"]
    return converted
