"""Holds manifests against everything that can be known of them without a cluster, all at once.

The rules are the core's; here they only meet places in files. What is wrong in one way is read as
if it were right and checked further, so that one answer tells all.
"""

from __future__ import annotations

from collections import ChainMap, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from jobflow.api.jobflow import JobFlow
from jobflow.api.jobtemplate import JobTemplate
from jobflow.cli.manifests.faults import UNREADABLE, Fault, Place
from jobflow.cli.manifests.objects import Manifest, Manifests
from jobflow.cli.manifests.typed import Shaped, of_key, shaped
from jobflow.core.admission.validate import Known, validate_flow, validate_template
from jobflow.core.violations import Reason, Verdict, Violation


@dataclass(frozen=True, slots=True)
class Warned:
    """Something suspicious about an object; no reason to refuse it."""

    place: Place
    message: str


@dataclass(slots=True)
class Report:
    """Everything that can be said of some manifests."""

    faults: list[Fault] = field(default_factory=list)
    """In the order of files and lines."""
    warnings: list[Warned] = field(default_factory=list)
    flows: list[Manifest] = field(default_factory=list)
    templates: list[Manifest] = field(default_factory=list)
    others: list[Manifest] = field(default_factory=list)
    """Objects of kinds that are not ours; kubectl applies them, nothing here looks into them."""

    @property
    def unreadable(self) -> bool:
        """Whether a file or a document could not be read at all."""
        return any(fault.reason == UNREADABLE for fault in self.faults)


def check(manifests: Manifests, *, lenient: bool = False) -> Report:
    """Every fault and warning of all the manifests together. With `lenient`, unknown fields of jobs
    and everything else that admission only warns of are warnings."""
    report = Report(faults=list(manifests.faults))
    ours: list[Shaped] = []
    for manifest in manifests.objects:
        read = shaped(manifest)
        if read is None:
            report.others.append(manifest)
            continue
        ours.append(read)
        if read.kind == "JobFlow":
            report.flows.append(manifest)
        elif read.kind == "JobTemplate":
            report.templates.append(manifest)
    templates = _Templates(ours)
    for read in ours:
        verdict = _verdict(read, templates.seen_by(read.manifest))
        place = read.manifest.place("metadata.name")
        report.warnings += (Warned(place, text) for text in verdict.warnings)
        for found in (*_faults(read, verdict), *_doubts(read, verdict)):
            if isinstance(found, Warned):
                report.warnings.append(found)
            elif lenient and found.is_doubt:
                report.warnings.append(Warned(found.place, found.sentence))
            else:
                report.faults.append(found)
    report.faults += _given_twice(ours)
    order = {id(source): n for n, source in enumerate(manifests.sources)}
    report.faults.sort(key=lambda fault: _position(fault.place, order))
    return report


class _Templates:
    """The templates of each namespace by name. One that several files give, each flow sees as its
    own file has it: what is said of it does not hang on its neighbours."""

    def __init__(self, ours: Iterable[Shaped]) -> None:
        self._all: dict[str, dict[str, JobTemplate]] = defaultdict(dict)
        self._own: dict[tuple[int, str], dict[str, JobTemplate]] = defaultdict(dict)
        self._given_twice = False
        for read in ours:
            if isinstance(read.object, JobTemplate):
                self._add(read.manifest, read.object)

    def _add(self, manifest: Manifest, template: JobTemplate) -> None:
        there = self._all[manifest.namespace]
        self._given_twice = self._given_twice or manifest.name in there
        there[manifest.name] = template
        self._own[id(manifest.source), manifest.namespace][manifest.name] = template

    def seen_by(self, manifest: Manifest) -> Mapping[str, JobTemplate]:
        """By name."""
        there = self._all[manifest.namespace]
        own = self._own.get((id(manifest.source), manifest.namespace))
        return ChainMap(own, there) if own and self._given_twice else there


def _verdict(read: Shaped, templates: Mapping[str, JobTemplate]) -> Verdict:
    known = Known(templates=templates)
    match read.object:
        case JobFlow():
            return validate_flow(read.object, known)
        case JobTemplate():
            return validate_template(read.object, known)
        case None:
            return Verdict()


def _faults(read: Shaped, verdict: Verdict) -> Iterator[Fault]:
    """The faults of an object's shape, then what its rules say besides."""
    manifest = read.manifest
    for path, duplicate, place in manifest.duplicates():
        text = f"given again; first on line {duplicate.first.line}, and only the last one counts"
        yield _fault(read, Violation(path, Reason.DUPLICATE, duplicate.key, text), place)
    for violation in read.violations:
        is_key = of_key(violation)
        is_doubt = is_key and read.kind == "JobTemplate"
        yield _fault(read, violation, manifest.place(violation.path, of_key=is_key), is_doubt)
    misfits = {each.path for each in read.violations}
    for violation in verdict.violations:
        if misfits.isdisjoint(_path_and_above(violation.path)):
            yield _fault(read, violation, manifest.place(violation.path))


def _doubts(read: Shaped, verdict: Verdict) -> Iterator[Fault | Warned]:
    """Everything that admission only warns of, except unknown fields that the schema reported."""
    misfits = {each.path for each in read.violations}
    for doubt in verdict.field_warnings:
        if not misfits.isdisjoint(_path_and_above(doubt.path)):
            continue
        if doubt.reason is None:
            yield Warned(read.manifest.place(doubt.path), str(doubt))
            continue
        violation = Violation(doubt.path, doubt.reason, doubt.value, doubt.detail)
        place = read.manifest.place(doubt.path, of_key=of_key(violation))
        yield _fault(read, violation, place, is_doubt=True)


def _path_and_above(path: str) -> Iterator[str]:
    """`spec.flows[0].name`, `spec.flows[0]`, `spec.flows`, `spec`."""
    yield path
    for end in range(len(path) - 1, 0, -1):
        if path[end] in ".[":
            yield path[:end]


def _fault(read: Shaped, violation: Violation, place: Place, is_doubt: bool = False) -> Fault:
    return Fault(
        place=place,
        reason=violation.reason,
        message=violation.message,
        path=violation.path,
        kind=read.kind,
        name=read.manifest.name,
        is_doubt=is_doubt,
    )


def _given_twice(ours: Iterable[Shaped]) -> Iterator[Fault]:
    """Objects with a name that another of their kind and namespace already has."""
    seen: dict[tuple[str, str, str], Manifest] = {}
    for read in ours:
        manifest = read.manifest
        if not manifest.name:
            continue
        first = seen.setdefault((read.kind, manifest.namespace, manifest.name), manifest)
        if first is not manifest:
            text = f"this {read.kind} is already at {first.place('metadata.name')}"
            violation = Violation("metadata.name", Reason.DUPLICATE, manifest.name, text)
            yield _fault(read, violation, manifest.place("metadata.name"))


def _position(place: Place, order: Mapping[int, int]) -> tuple[int, int, int]:
    return order[id(place.source)], place.line, place.column
