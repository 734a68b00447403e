"""The check of manifests by the rules of admission, with the places of all faults.

A value with one fault is read as if it were right and checked further, so that one report has all
faults.
"""

from __future__ import annotations

from collections import ChainMap, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from jobflow.api.jobflow import JobFlow
from jobflow.api.jobtemplate import JobTemplate
from jobflow.cli.manifests.faults import UNREADABLE, ManifestFault, SourcePlace
from jobflow.cli.manifests.objects import Manifest, Manifests
from jobflow.cli.manifests.typed import TypedManifest, is_about_key, to_typed
from jobflow.core.admission.validate import Known, validate_flow, validate_template
from jobflow.core.violations import Reason, Verdict, Violation


@dataclass(frozen=True, slots=True)
class ManifestWarning:
    """Something suspicious at a place that is no fault."""

    place: SourcePlace
    message: str


@dataclass(slots=True)
class Report:
    """Faults and warnings of all manifests, and the manifests by kind."""

    faults: list[ManifestFault] = field(default_factory=list)
    """In the order of files and lines."""
    warnings: list[ManifestWarning] = field(default_factory=list)
    flows: list[Manifest] = field(default_factory=list)
    templates: list[Manifest] = field(default_factory=list)
    others: list[Manifest] = field(default_factory=list)
    """Objects of other kinds, which are not checked."""

    @property
    def unreadable(self) -> bool:
        """Whether a file or a document could not be read at all."""
        return any(fault.reason == UNREADABLE for fault in self.faults)


def check(manifests: Manifests, *, lenient: bool = False) -> Report:
    """Check all manifests together. `lenient` turns faults that admission only warns about, such as
    unknown fields of jobs, into warnings."""
    report = Report(faults=list(manifests.faults))
    ours: list[TypedManifest] = []
    for manifest in manifests.objects:
        typed = to_typed(manifest)
        if typed is None:
            report.others.append(manifest)
            continue
        ours.append(typed)
        if typed.kind == "JobFlow":
            report.flows.append(manifest)
        elif typed.kind == "JobTemplate":
            report.templates.append(manifest)
    templates = _Templates(ours)
    for typed in ours:
        verdict = _verdict(typed, templates.visible_to(typed.manifest))
        place = typed.manifest.place("metadata.name")
        report.warnings += (ManifestWarning(place, text) for text in verdict.warnings)
        for found in (*_faults(typed, verdict), *_field_warnings(typed, verdict)):
            if isinstance(found, ManifestWarning):
                report.warnings.append(found)
            elif lenient and found.is_field_warning:
                report.warnings.append(ManifestWarning(found.place, found.sentence))
            else:
                report.faults.append(found)
    report.faults += _duplicate_objects(ours)
    order = {id(source): n for n, source in enumerate(manifests.sources)}
    report.faults.sort(key=lambda fault: _position(fault.place, order))
    return report


class _Templates:
    """The templates by namespace and name. If several files have one of the same name, a flow sees
    that of its own file, so that its report does not depend on the other files."""

    def __init__(self, ours: Iterable[TypedManifest]) -> None:
        self._all: dict[str, dict[str, JobTemplate]] = defaultdict(dict)
        self._by_file: dict[tuple[int, str], dict[str, JobTemplate]] = defaultdict(dict)
        self._has_duplicates = False
        for typed in ours:
            if isinstance(typed.object, JobTemplate):
                manifest = typed.manifest
                named = self._all[manifest.namespace]
                self._has_duplicates |= manifest.name in named
                named[manifest.name] = typed.object
                own = self._by_file[id(manifest.source), manifest.namespace]
                own[manifest.name] = typed.object

    def visible_to(self, manifest: Manifest) -> Mapping[str, JobTemplate]:
        """Return the templates that a flow sees, by name."""
        named = self._all[manifest.namespace]
        own = self._by_file.get((id(manifest.source), manifest.namespace))
        return ChainMap(own, named) if own and self._has_duplicates else named


def _verdict(typed: TypedManifest, templates: Mapping[str, JobTemplate]) -> Verdict:
    known = Known(templates=templates)
    match typed.object:
        case JobFlow():
            return validate_flow(typed.object, known)
        case JobTemplate():
            return validate_template(typed.object, known)
        case None:
            return Verdict()


def _faults(typed: TypedManifest, verdict: Verdict) -> Iterator[ManifestFault]:
    """Return the faults of the schema, then those of the rules at other paths."""
    manifest = typed.manifest
    for path, duplicate, place in manifest.duplicates():
        detail = f"already on line {duplicate.first.line}; only the last value is used"
        yield _fault(typed, Violation(path, Reason.DUPLICATE, duplicate.key, detail), place)
    for violation in typed.violations:
        of_key = is_about_key(violation)
        is_field_warning = of_key and typed.kind == "JobTemplate"
        yield _fault(
            typed, violation, manifest.place(violation.path, of_key=of_key), is_field_warning
        )
    schema_paths = {violation.path for violation in typed.violations}
    for violation in verdict.violations:
        if not _is_within(violation.path, schema_paths):
            yield _fault(typed, violation, manifest.place(violation.path))


def _field_warnings(
    typed: TypedManifest, verdict: Verdict
) -> Iterator[ManifestFault | ManifestWarning]:
    """Return what admission only warns about, without the unknown fields that the schema found."""
    manifest = typed.manifest
    schema_paths = {violation.path for violation in typed.violations}
    for warning in verdict.field_warnings:
        if _is_within(warning.path, schema_paths):
            continue
        if warning.reason is None:
            yield ManifestWarning(manifest.place(warning.path), str(warning))
            continue
        violation = Violation(warning.path, warning.reason, warning.value, warning.detail)
        place = manifest.place(warning.path, of_key=is_about_key(violation))
        yield _fault(typed, violation, place, is_field_warning=True)


def _is_within(path: str, paths: set[str]) -> bool:
    """Whether the path or one above it is in `paths`: of `a[0].b` also `a[0]` and `a`."""
    return path in paths or any(
        path[:end] in paths for end in range(len(path)) if path[end] in ".["
    )


def _fault(
    typed: TypedManifest, violation: Violation, place: SourcePlace, is_field_warning: bool = False
) -> ManifestFault:
    return ManifestFault(
        place=place,
        reason=violation.reason,
        message=violation.message,
        path=violation.path,
        kind=typed.kind,
        name=typed.manifest.name,
        is_field_warning=is_field_warning,
    )


def _duplicate_objects(ours: Iterable[TypedManifest]) -> Iterator[ManifestFault]:
    """Return the objects with the kind, namespace and name of an earlier one."""
    seen: dict[tuple[str, str, str], Manifest] = {}
    for typed in ours:
        manifest = typed.manifest
        if not manifest.name:
            continue
        first = seen.setdefault((typed.kind, manifest.namespace, manifest.name), manifest)
        if first is not manifest:
            detail = f"this {typed.kind} is already at {first.place('metadata.name')}"
            violation = Violation("metadata.name", Reason.DUPLICATE, manifest.name, detail)
            yield _fault(typed, violation, manifest.place("metadata.name"))


def _position(place: SourcePlace, order: Mapping[int, int]) -> tuple[int, int, int]:
    return order[id(place.source)], place.line, place.column
