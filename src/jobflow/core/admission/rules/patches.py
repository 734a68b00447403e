"""The rules of what a flow changes of its templates: it has to give vcjobs that Volcano takes.

What a vcjob may say is `job_rules`; here it is asked of the merged spec, of each case of a switch,
and `patch_places` brings the answer back to the place that it comes from: a patch or jobDefaults.
What only a run can tell (`uses.unknown`) is left alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice
from typing import Any

import msgspec

from jobflow.api.control import JobDefaults
from jobflow.core.admission.analysis.flow_facts import FlowFacts
from jobflow.core.admission.analysis.patch_locations import Places, as_written, innermost
from jobflow.core.admission.analysis.resolved_specs import ResolvedPatch, ResolvedSpec, unknown
from jobflow.core.admission.rule import Group, Rule
from jobflow.core.admission.volcano.job import changed_violations, job_violations
from jobflow.core.manifests.strategic_merge import merge, patch_violations
from jobflow.core.violations import MAX_FINDINGS, MAX_SHOWN, Reason, Violation, some

_OF_THE_VALUE_ALONE = frozenset({Reason.NOT_SUPPORTED, Reason.TYPE_INVALID, Reason.TOO_LONG})
"""Reasons that hold whatever the template says, for what the patch sets it sets."""
_ONE_VALUE = re.compile(
    r"tasks\[\d+\]\.name|queue|priorityClassName|runningEstimate|mountPath|volumeClaimName"
)
"""Where an invalid value is invalid by itself: the end of its path."""
_REPLACED = re.compile(r"policies\[\d+\]")
"""Lists that a patch replaces as a whole, so that nothing in them depends on a template."""
_BY_TASK_NAMES = re.compile(r"plugins\.mpi|.*\.dependsOn\.name(?:\[\d+\])?")
"""Faults that a task with another name might mend."""
_FOUND_BY_NAME = {
    re.compile(r"\.tasks\[\d+\]\.template\.spec\.containers"): "task",
    re.compile(r"\.tasks\[\d+\]\.template\.spec\.\w+\[\d+\]\.image"): "container",
}
"""Places that lack a value if a patch adds a task or container instead of changing one."""
_DEFAULTS = "spec.jobDefaults"
_OF_THE_SPEC = frozenset({"queue", "priorityClassName", "schedulerName", "plugins"})
_TASK = re.compile(r"tasks(?:\[\d+\](?:\.name)?)?")

Faults = Iterator[Violation]


def patches_can_be_merged(facts: FlowFacts) -> Faults:
    for change in facts.changes:
        for fault in patch_violations(change.said, change.path):
            yield as_written(fault, change.path, change.written)


def patches_fit_their_types(facts: FlowFacts) -> Faults:
    """Values for pods have the types that Kubernetes has for them."""
    for change, found in facts.misfits:
        for fault in found.violations:
            yield as_written(fault, change.path, change.written)


def patches_name_what_they_mean(facts: FlowFacts) -> Faults:
    """A task or container without a name means the only one of its template, if there is one."""
    for kind, change, stranger in facts.strangers:
        if stranger.name is None:
            detail = (
                f'template "{kind.template.metadata.name}" has {len(stranger.known)} '
                f"{stranger.word}s ({some(stranger.known)}); name the one to change"
            )
            fault = Violation(f"{stranger.path}.name", Reason.REQUIRED, None, detail)
            yield as_written(fault, change.path, change.written)


def patches_make_jobs(facts: FlowFacts) -> Faults:
    """With a known template all of Volcano's rules; without one those that need no template."""
    defaults = facts.flow.spec.job_defaults
    if not facts.changes and defaults is None:
        return
    found = _Found(defaults)
    used = {id(change) for kind in facts.resolved_specs for change in kind.changes}
    faults = chain(
        found.alone,
        chain.from_iterable(map(found.of, facts.resolved_specs)),
        chain.from_iterable(
            _faults_by_themselves(change) for change in facts.changes if id(change) not in used
        ),
    )
    nameless = frozenset(each.path for _, _, each in facts.strangers if each.name is None)
    said = (fault for fault in faults if not _lacks_only_a_name(fault, nameless))
    yield from _once(islice(said, MAX_FINDINGS))


PATCH_RULES = (
    Group[Rule](
        lambda facts: facts.changes,
        (patches_can_be_merged, patches_fit_their_types, patches_name_what_they_mean),
    ),
    Group[Rule](lambda facts: facts.changes or facts.flow.spec.job_defaults, (patches_make_jobs,)),
)


def _lacks_only_a_name(fault: Violation, nameless: Collection[str]) -> bool:
    """Whether a value is missing in a task or container of a patch because the patch does not name
    the one to change, which `patches_name_what_they_mean` reports."""
    return (
        bool(nameless)
        and fault.reason is Reason.REQUIRED
        and any(path in nameless for path in _beginnings(fault.path))
    )


def _once(faults: Iterable[Violation]) -> Faults:
    """Each fault once: cases of one switch share their step's patch, steps of one template the
    flow's jobDefaults."""
    said: set[tuple[str, str]] = set()
    for fault in faults:
        if (key := (fault.path, fault.message)) not in said:
            said.add(key)
            yield fault


class _Found:
    """What Volcano would refuse in merged specs and would not in their templates alone."""

    def __init__(self, defaults: JobDefaults | None) -> None:
        self._defaults: Mapping[str, Any] = _of_spec(defaults) if defaults else {}
        change = ResolvedPatch(-1, None, _DEFAULTS, self._defaults, self._defaults, open=False)
        alone = _faults_by_themselves(change) if self._defaults else ()
        self.alone = [*islice(alone, MAX_FINDINGS)]
        """What is wrong with jobDefaults whatever the templates hold."""
        self._before: dict[int, frozenset[tuple[str, str]]] = {}
        self._placed = 0

    def of(self, kind: ResolvedSpec) -> Faults:
        """The faults of one merged spec, at their places in the flow."""
        if not kind.changes and not self._defaults:
            return
        faults = changed_violations(kind.spec, self._changed(kind))
        if kind.open:
            faults = filter(_beside(kind.spec), faults)
        layers = None
        for fault in faults:
            if (fault.path, fault.message) not in self._of_template(kind):
                layers = layers or self._layers(kind)
                yield self._of_whom(self._at_its_place(layers, _found_by_name(fault)), kind)

    def _at_its_place(self, layers: Sequence[Places], fault: Violation) -> Violation:
        """The fault at its place in the innermost layer. Finding a place takes longer than finding
        the fault, so faults beyond those that a refusal shows stand at the patch as a whole."""
        self._placed += 1
        return innermost(layers, fault) if self._placed <= MAX_SHOWN else layers[0].whole(fault)

    def _changed(self, kind: ResolvedSpec) -> Collection[str]:
        """The fields in which its spec may differ from the template's."""
        fields = {*self._defaults, *(field for change in kind.changes for field in change.said)}
        if any(field.startswith("$") for field in fields):  # a directive, which may be of them all
            fields.update(kind.template.spec)
        return fields

    def _of_whom(self, fault: Violation, kind: ResolvedSpec) -> Violation:
        """With the template, where jobDefaults do not suit it: they do not say whose job it is."""
        if not fault.path.startswith(_DEFAULTS) or fault in self.alone:
            return fault
        detail = f'{fault.detail} (with template "{kind.template.metadata.name}")'
        return replace(fault, detail=detail)

    def _of_template(self, kind: ResolvedSpec) -> frozenset[tuple[str, str]]:
        spec = kind.template.spec
        if id(spec) not in self._before:
            faults = job_violations(spec, "", None)
            self._before[id(spec)] = frozenset((fault.path, fault.message) for fault in faults)
        return self._before[id(spec)]

    def _layers(self, kind: ResolvedSpec) -> list[Places]:
        """What was merged onto the template, the last first."""
        changes = [Places(c.said, kind.spec, c.path, c.written) for c in reversed(kind.changes)]
        defaults = Places(self._defaults, kind.spec, _DEFAULTS, self._defaults)
        return [*changes, defaults] if self._defaults else changes


def _found_by_name(fault: Violation) -> Violation:
    """A missing value of a merged spec, with how a patch finds the element that has it."""
    if fault.reason is Reason.REQUIRED:
        for place, word in _FOUND_BY_NAME.items():
            if place.fullmatch(fault.path):
                return replace(fault, detail=f"{fault.detail} (a patch finds its {word} by name)")
    return fault


def _of_spec(defaults: JobDefaults) -> dict[str, Any]:
    """What becomes part of a vcjob's spec; an empty word says nothing (`build.with_defaults`)."""
    said = msgspec.to_builtins(defaults)
    return {key: value for key, value in said.items() if key in _OF_THE_SPEC and value}


def _faults_by_themselves(change: ResolvedPatch) -> Faults:
    """What Volcano would refuse whatever the template holds."""
    spec = merge({}, change.said)
    places = Places(change.said, spec, change.path, change.written)
    is_known = _beside(spec) if change.open else lambda fault: True
    for fault in job_violations(spec, "", None):
        if _needs_no_template(fault) and is_known(fault):
            yield places.in_patch(fault)


def _needs_no_template(fault: Violation) -> bool:
    if fault.reason in _OF_THE_VALUE_ALONE or _REPLACED.search(fault.path):
        return True
    if fault.reason is not Reason.INVALID:
        return False
    if isinstance(fault.value, int):
        return fault.value < 0
    return any(found.end() == len(fault.path) for found in _ONE_VALUE.finditer(fault.path))


def _beside(spec: Mapping[str, Any]) -> Callable[[Violation], bool]:
    """Whether a fault holds whatever comes to stand where only a run can tell: it is neither there,
    nor above or below it, and about no names of tasks where one of these is unknown."""
    open_places = frozenset(unknown(spec))
    above = frozenset(part for place in open_places for part in _beginnings(place))
    tasks = any(_TASK.fullmatch(place) for place in open_places)

    def holds(fault: Violation) -> bool:
        path = fault.path.removeprefix(".")
        if tasks and _BY_TASK_NAMES.fullmatch(path):
            return False
        if path in above and fault.reason is not Reason.NOT_SUPPORTED:
            return False  # a word that there is not stays so, as the name of a plugin
        return open_places.isdisjoint(_beginnings(path))

    return holds


def _beginnings(path: str) -> Iterator[str]:
    """`tasks[0].name`, `tasks[0]`, `tasks`."""
    yield path
    for end in range(len(path) - 1, 0, -1):
        if path[end] in ".[":
            yield path[:end]
