"""The check of manifests by the rules of admission, with the places of all faults.

A value with one fault is read as if it were right and checked further, so that one report has all
faults.
"""

import sys
from collections import ChainMap, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import msgspec

from jobflow.api.flow.cronjobflow import CronJobFlow
from jobflow.api.flow.jobflow import JobFlow, JobTemplate
from jobflow.api.labels import CRON
from jobflow.client.manifests import objects
from jobflow.client.manifests.flag_values import parse_params, set_name, set_params
from jobflow.client.manifests.objects import Manifest, Manifests
from jobflow.client.manifests.sources import UNREADABLE, ManifestFault, Source, SourcePlace
from jobflow.client.manifests.typed import TypedManifest, is_about_key, to_typed
from jobflow.client.options import FileOptions
from jobflow.core.admission.rules.size_limits import size_violations
from jobflow.core.admission.validate import Known, validate_cron, validate_flow, validate_template
from jobflow.core.violations import Reason, Verdict, Violation


@dataclass(slots=True)
class Report:
    """Faults and warnings of all manifests, and the manifests by kind."""

    faults: list[ManifestFault] = field(default_factory=list)
    """In the order of files and lines."""
    warnings: list[ManifestFault] = field(default_factory=list)
    flows: list[Manifest] = field(default_factory=list)
    templates: list[Manifest] = field(default_factory=list)
    crons: list[Manifest] = field(default_factory=list)
    others: list[Manifest] = field(default_factory=list)
    """Objects of other kinds, which are not checked."""
    typed: list[TypedManifest] = field(default_factory=list)
    """The manifests of JobFlow's kinds as objects."""

    @property
    def has_only_missing_files(self) -> bool:
        """Whether all faults are of files that cannot be read at all."""
        missing = (fault.reason == UNREADABLE and not fault.place.line for fault in self.faults)
        return bool(self.faults) and not self.others and all(missing)


def check_files(
    options: FileOptions, *, namespace: str = objects.DEFAULT_NAMESPACE, name: str | None = None
) -> Report:
    """Check FILEs with these params; files without an object of JobFlow are a fault too.
    `namespace` is that of objects without one, `name` replaces that of the only flow. Raises
    CommandError."""
    values = parse_params(options.param or ())
    manifests = objects.load(options.files, sys.stdin.buffer)
    manifests.objects = [
        replace(manifest, default_namespace=namespace) for manifest in manifests.objects
    ]
    # with faults, nobody knows how many flows there are
    if name is not None and not manifests.faults:
        set_name(name, manifests.objects)
    if values and manifests.objects:
        set_params(values, manifests.objects)
    report = check(manifests, lenient=options.lenient)
    if not (report.faults or report.flows or report.templates or report.crons):
        source = Source(" ".join("<stdin>" if file == "-" else file for file in options.files))
        fault = ManifestFault(
            SourcePlace(source), UNREADABLE, "contains no JobFlow, JobTemplate or CronJobFlow"
        )
        report.faults.append(fault)
    return report


def check(manifests: Manifests, *, lenient: bool = False) -> Report:
    """Check all manifests together. `lenient` turns faults that admission only warns about, such as
    unknown fields of jobs, into warnings."""
    report = Report(faults=list(manifests.faults))
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
    for typed in report.typed:
        source, namespace = typed.manifest.source, typed.manifest.namespace
        # A flow sees the templates of its own file first, so that its report does not depend on
        # templates with the same names in other files.
        templates = ChainMap(by_file[id(source), namespace], everywhere[namespace])
        for fault in _find_faults(typed, _judge(typed, Known(templates=templates))):
            is_warning = not fault.reason or (lenient and fault.is_field_warning)
            (report.warnings if is_warning else report.faults).append(fault)
    # across files too: the later one would replace the first on a cluster
    report.faults += _duplicate_objects(report.typed)
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


def _duplicate_objects(ours: Iterable[TypedManifest]) -> Iterator[ManifestFault]:
    seen: dict[tuple[str, str, str], Manifest] = {}
    for typed in ours:
        manifest = typed.manifest
        # each generateName makes another name
        if not manifest.name:
            continue
        first = seen.setdefault((typed.kind, manifest.namespace, manifest.name), manifest)
        if first is not manifest:
            detail = f"this {typed.kind} is already at {first.place('metadata.name')}"
            violation = Violation("metadata.name", Reason.DUPLICATE, manifest.name, detail)
            yield _fault(typed, violation)


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
