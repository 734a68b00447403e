"""The check of manifests by the schema and the rules of admission. So that one report has all
faults with their places, values of a wrong type are left out, and misspelt keys read as meant."""

import re
import sys
from collections import ChainMap, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import msgspec

from jobflow.api.flow.cronjobflow import CronJobFlow
from jobflow.api.flow.jobflow import JobFlow, JobTemplate
from jobflow.api.kinds import KINDS, FlowObject
from jobflow.api.labels import CRON
from jobflow.api.resources import FLOW_GROUP, JOBFLOWS
from jobflow.client.manifests import objects
from jobflow.client.manifests.flag_values import read_params, set_name, set_params
from jobflow.client.manifests.objects import Manifest, Manifests
from jobflow.client.manifests.sources import STDIN, UNREADABLE, ManifestFault, Source, SourcePlace
from jobflow.client.manifests.yaml_nodes import data_of
from jobflow.client.options import FileOptions
from jobflow.core.admission.object_names import name_violations
from jobflow.core.admission.rules.size_limits import size_violations
from jobflow.core.admission.validate import Known, validate_cron, validate_flow, validate_template
from jobflow.core.manifests.crd_schema import schema_violations, without_nulls
from jobflow.core.suggest import Suggester, list_supported
from jobflow.core.violations import Reason, Verdict, Violation

API_VERSION = JOBFLOWS.api_version
_UNKNOWN_FIELD = "unknown field"
_EXPECTS_TEXT = "must be of type string"
_MEANT = re.compile(r'; did you mean "([^"]+)"\?$')
_ROUNDS = 5
"""Levels of misspelt keys below misspelt keys that are mended."""


@dataclass(frozen=True, slots=True)
class TypedManifest:
    """A manifest of one of JobFlow's kinds."""

    manifest: Manifest
    kind: str
    violations: list[Violation]
    """Faults of kind, apiVersion, schema and metadata."""
    object: FlowObject | None
    """The mended object; None if it cannot be mended."""


def to_typed(manifest: Manifest) -> TypedManifest | None:
    """Return the manifest as one of JobFlow's kinds, or None if it is of another kind."""
    kind, violations = _kind(manifest)
    if kind is None:
        if not violations:
            return None
        return TypedManifest(manifest, str(manifest.kind or ""), violations, None)
    data = data_of(manifest.node) | {"apiVersion": API_VERSION, "kind": kind}
    data.pop("status", None)  # the server's; `kubectl get -o yaml` prints it too
    # a later round finds most faults of the one before again
    found: dict[tuple[str, Reason], Violation] = {}
    for _ in range(_ROUNDS):
        of_schema = schema_violations(kind, data, strict=True)
        found |= {(each.path, each.reason): each for each in of_schema}
        renamed = [_mend(manifest, data, each) for each in of_schema]
        # below a key that was renamed there may be more
        if not any(renamed):
            break
    violations += (*found.values(), *_metadata_violations(kind, data))
    try:
        typed = msgspec.convert(without_nulls(kind, data), KINDS[kind].object_type)
    except msgspec.ValidationError as error:
        typed = None
        if not violations:
            violations.append(Violation("", Reason.TYPE_INVALID, kind, str(error)))
    return TypedManifest(manifest, kind, violations, typed)


def is_about_key(violation: Violation) -> bool:
    """Whether a violation is about a key itself and not about its value."""
    return violation.detail.startswith(_UNKNOWN_FIELD)


def meant_key(violation: Violation) -> str | None:
    """Return the key that a violation about a misspelt key suggests, if it does."""
    meant = _MEANT.search(violation.detail) if is_about_key(violation) else None
    return meant[1] if meant is not None else None


def _kind(manifest: Manifest) -> tuple[str | None, list[Violation]]:
    """Return the kind, mended if it is misspelt, and the faults of kind and apiVersion."""
    kind, version = manifest.kind, manifest.api_version
    violations = []
    meant = kind if isinstance(kind, str) and kind in KINDS else None
    if meant is None:
        # other kinds may be in FILEs too: they are not checked
        is_ours = not isinstance(kind, str) or not kind or str(version).split("/")[0] == FLOW_GROUP
        guess = Suggester(list(KINDS)).nearest(kind) if isinstance(kind, str) else None
        if guess and (is_ours or guess.casefold() == kind.casefold()):
            meant = guess  # in another group only the letter case may be wrong
        elif not is_ours:
            return None, []
        reason = Reason.NOT_SUPPORTED if kind else Reason.REQUIRED
        violations.append(Violation("kind", reason, kind, list_supported(kind, KINDS)))
    if meant and version != API_VERSION:
        reason = Reason.NOT_SUPPORTED if version else Reason.REQUIRED
        detail = f"for a {meant} write {API_VERSION}"
        violations.append(Violation("apiVersion", reason, version, detail))
    return meant, violations


def _metadata_violations(kind: str, data: dict[str, Any]) -> Iterator[Violation]:
    """Return the faults that an API server finds before the webhook, which checks flows' names."""
    metadata = data.get("metadata")
    if not isinstance(metadata, dict):
        metadata = {}
    name = metadata.get("name")
    if kind == "JobTemplate" and not name and not metadata.get("generateName"):
        detail = "a JobTemplate has a name, by which steps refer to it"
        yield Violation("metadata.name", Reason.REQUIRED, name, detail)
    elif kind == "JobTemplate" and isinstance(name, str):
        yield from name_violations("metadata.name", name)
    namespace = metadata.get("namespace")
    if isinstance(namespace, str) and namespace:
        yield from name_violations("metadata.namespace", namespace)


def _mend(manifest: Manifest, data: Any, violation: Violation) -> bool:
    """Remove a value of the wrong type, or rename a misspelt key; return whether it renamed."""
    keys = manifest.keys(violation.path)
    if not keys:
        return False
    *above, last = keys
    for key in above:
        data = data[key]
    if is_about_key(violation):
        meant = meant_key(violation)
        # both keys are there: which is meant, nobody knows
        if meant is None or meant in data:
            return False
        data[meant] = data.pop(last)
        manifest.add_alias(violation.path, meant)
        return True
    if violation.reason is Reason.TYPE_INVALID and isinstance(data, dict):
        del data[last]
    elif violation.reason is Reason.TYPE_INVALID:
        data[last] = "" if _EXPECTS_TEXT in violation.detail else {}
    return False


@dataclass(slots=True)
class Report:
    """Faults and warnings of all manifests, and the manifests by kind."""

    faults: list[ManifestFault] = field(default_factory=list)
    """In the order of files and lines."""
    warnings: list[ManifestFault] = field(default_factory=list)
    flag_warnings: list[ManifestFault] = field(default_factory=list)
    """Those of `warnings` about values of flags, of which the API server knows nothing."""
    flows: list[Manifest] = field(default_factory=list)
    templates: list[Manifest] = field(default_factory=list)
    crons: list[Manifest] = field(default_factory=list)
    others: list[Manifest] = field(default_factory=list)
    """Objects of other kinds, which are not checked."""
    typed: list[TypedManifest] = field(default_factory=list)

    @property
    def has_only_missing_files(self) -> bool:
        """Whether all faults are of files that cannot be read at all."""
        missing = (fault.reason == UNREADABLE and not fault.place.line for fault in self.faults)
        return bool(self.faults) and not self.others and all(missing)


def check_files(
    options: FileOptions, *, namespace: str = objects.DEFAULT_NAMESPACE, name: str | None = None
) -> Report:
    """Check FILEs with these params. `namespace` is that of objects without one, `name` replaces
    that of the only flow. Raises CommandError."""
    return check_loaded(load_files(options, namespace=namespace, name=name), options)


def load_files(options: FileOptions, *, namespace: str, name: str | None = None) -> Manifests:
    """Return the objects in FILEs as `check_files` checks them. Raises CommandError."""
    values = read_params(options)
    manifests = objects.load(options.files, sys.stdin.buffer)
    manifests.objects = [
        replace(manifest, default_namespace=namespace) for manifest in manifests.objects
    ]
    # with faults, nobody knows how many flows there are
    if name is not None and not manifests.faults:
        set_name(name, manifests.objects)
    if values and manifests.objects:
        manifests.flag_warnings = set_params(values, manifests.objects)
    return manifests


def check_loaded(manifests: Manifests, options: FileOptions) -> Report:
    """Check what `load_files` has returned."""
    report = check(manifests, lenient=options.lenient)
    if not (report.faults or report.flows or report.templates or report.crons):
        source = Source(" ".join(STDIN if file == "-" else file for file in options.files))
        nothing = "contains no JobFlow, JobTemplate or CronJobFlow"
        report.faults.append(ManifestFault(SourcePlace(source), UNREADABLE, nothing))
    return report


def check(manifests: Manifests, *, lenient: bool = False) -> Report:
    """Check all manifests together. `lenient` turns faults that admission only warns about, such as
    unknown fields of jobs, into warnings."""
    of_flags = manifests.flag_warnings
    report = Report([*manifests.faults], [*of_flags], flag_warnings=of_flags)
    by_kind = {
        "JobFlow": report.flows,
        "JobTemplate": report.templates,
        "CronJobFlow": report.crons,
    }
    for manifest in manifests.objects:
        typed = to_typed(manifest)
        if typed is None:
            report.others.append(manifest)
            continue
        report.typed.append(typed)
        if typed.kind in by_kind:
            by_kind[typed.kind].append(manifest)
    everywhere: dict[str, dict[str, JobTemplate]] = defaultdict(dict)
    by_file: dict[tuple[int, str], dict[str, JobTemplate]] = defaultdict(dict)
    for typed in report.typed:
        if isinstance(typed.object, JobTemplate):
            source, namespace = typed.manifest.source, typed.manifest.namespace
            everywhere[namespace][typed.manifest.name] = typed.object
            by_file[id(source), namespace][typed.manifest.name] = typed.object
    seen: dict[tuple[str, str, str], Manifest] = {}
    for typed in report.typed:
        manifest, namespace = typed.manifest, typed.manifest.namespace
        # A flow sees the templates of its own file first, so that its report does not depend on
        # templates with the same names in other files.
        templates = ChainMap(by_file[id(manifest.source), namespace], everywhere[namespace])
        for fault in _find_faults(typed, _judge(typed, Known(templates=templates))):
            is_warning = not fault.reason or (lenient and fault.is_field_warning)
            (report.warnings if is_warning else report.faults).append(fault)
        # across files too: the later one would replace the first on a cluster
        first = seen.setdefault((typed.kind, namespace, manifest.name), manifest)
        if manifest.name and first is not manifest:  # each generateName makes another name
            detail = f"this {typed.kind} is already at {first.place('metadata.name')}"
            violation = Violation("metadata.name", Reason.DUPLICATE, manifest.name, detail)
            report.faults.append(_fault(typed, violation))
    order = {id(source): n for n, source in enumerate(manifests.sources)}
    report.faults.sort(
        key=lambda fault: (order[id(fault.place.source)], fault.place.line, fault.place.column)
    )
    return report


def _judge(typed: TypedManifest, known: Known) -> Verdict:
    if typed.object is not None and (large := size_violations(typed.object.spec)):
        return Verdict(large)
    match typed.object:
        case JobFlow():
            return validate_flow(typed.object, known)
        case JobTemplate():
            return validate_template(typed.object, known)
        case CronJobFlow():
            return validate_cron(typed.object, known)
        case None:
            return Verdict()


def _find_faults(typed: TypedManifest, verdict: Verdict) -> Iterator[ManifestFault]:
    """Return the faults and warnings of the schema, then those of the rules at other paths."""
    manifest = typed.manifest
    for text in verdict.warnings:
        yield ManifestFault(manifest.place("metadata.name"), "", text)
    for path, duplicate, place in manifest.duplicates():
        detail = f"already on line {duplicate.first.line}; only the last value is used"
        yield _fault(typed, Violation(path, Reason.DUPLICATE, duplicate.key, detail), place)
    for path, written, read, place in manifest.misread_keys():
        detail = f"YAML reads this key as {read}; put it in quotes"
        violation = Violation(path, Reason.INVALID, written, detail)
        yield _fault(typed, violation, place, is_field_warning=True)
    for violation in typed.violations:
        # the webhook warns about unknown fields of templates, because Volcano may know more of them
        is_field_warning = is_about_key(violation) and typed.kind == "JobTemplate"
        yield _fault(typed, violation, is_field_warning=is_field_warning)
    # the rules judge a value that was mended, so what they say of it may be wrong
    schema_paths = {violation.path for violation in typed.violations}
    for violation in verdict.violations:
        if not _is_within(violation.path, schema_paths):
            yield _fault(typed, violation)
    for warning in verdict.field_warnings:
        if _is_within(warning.path, schema_paths):
            continue
        if warning.reason is None:
            place, path = manifest.place(warning.path), warning.path
            yield ManifestFault(place, "", warning.detail, path, typed.kind, manifest.name)
        else:
            violation = Violation(warning.path, warning.reason, warning.value, warning.detail)
            yield _fault(typed, violation, is_field_warning=True)


def _is_within(path: str, paths: set[str]) -> bool:
    """Whether the path or one above it is in `paths`: of `a[0].b` also `a[0]` and `a`."""
    return path in paths or any(
        path[:end] in paths for end in range(len(path)) if path[end] in ".["
    )


def _fault(
    typed: TypedManifest,
    violation: Violation,
    place: SourcePlace | None = None,
    *,
    is_field_warning: bool = False,
) -> ManifestFault:
    manifest, path = typed.manifest, violation.path
    place = place or manifest.place(path, of_key=is_about_key(violation))
    reason, message = violation.reason, violation.message
    return ManifestFault(place, reason, message, path, typed.kind, manifest.name, is_field_warning)


def add_flows_of_crons(report: Report) -> list[str]:
    """Add a flow of each CronJobFlow to the flows of a report without faults, as if this were a
    scheduled time. Return the names of the CronJobFlows."""
    from jobflow.core.cron import build_flow  # commands without a CronJobFlow need none

    names = []
    for manifest in report.crons:
        cron = msgspec.convert(manifest.data, CronJobFlow)
        name = manifest.name or manifest.generate_name.rstrip("-.")
        meta = msgspec.structs.replace(cron.metadata, namespace=manifest.namespace, name=name)
        flow = build_flow(msgspec.structs.replace(cron, metadata=meta), datetime.now(UTC))
        del flow["metadata"]["ownerReferences"]  # there is no such CronJobFlow
        flow["spec"] = manifest.data["spec"]["jobFlowTemplate"]["spec"]
        report.flows.append(objects.manifest_of(flow))
        names.append(flow["metadata"]["annotations"][CRON])
    return names
