"""Rules of the layers of a job (what a step runs itself, its arguments, its patches) and of
jobDefaults: they must merge, and make vcjobs that Volcano accepts.

The merged spec of each step and case is judged, and each fault is traced back to the layer that it
comes from (`layer_locations`). Values that only a run knows (`open_paths`) are not judged.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from itertools import chain, islice
from typing import Any

import msgspec

from jobflow.api.flow.control import JobDefaults
from jobflow.core.admission.analysis.flow_facts import FlowFacts
from jobflow.core.admission.analysis.jobs.layer_locations import (
    LayerLocations,
    as_written,
    innermost,
    locations_of,
    open_paths,
)
from jobflow.core.admission.analysis.jobs.resolved_specs import ResolvedLayer, ResolvedSpec
from jobflow.core.admission.object_names import metadata_violations
from jobflow.core.admission.rule import RuleGroup, Rules
from jobflow.core.admission.volcano.job import changed_violations, job_violations
from jobflow.core.manifests.job import is_inherited
from jobflow.core.manifests.layers import Layer, Rank
from jobflow.core.manifests.strategic_merge import merge, patch_violations
from jobflow.core.text import join_names
from jobflow.core.violations import MAX_FINDINGS, MAX_SHOWN, Reason, Violation, join_path

_REASONS_WITHOUT_TEMPLATE = frozenset({Reason.NOT_SUPPORTED, Reason.TYPE_INVALID, Reason.TOO_LONG})
"""Reasons that hold for any template, because they are about the patch's own value."""
_SINGLE_VALUE = re.compile(
    r"tasks\[\d+\]\.name|queue|priorityClassName|runningEstimate|mountPath|volumeClaimName"
)
"""Ends of paths whose invalid value is invalid for any template."""
_REPLACED_LIST = re.compile(r"policies\[\d+\]")
"""Lists that a patch replaces as a whole, so that their faults hold for any template."""
_ABOUT_TASK_NAMES = re.compile(r"plugins\.mpi|.*\.dependsOn\.name(?:\[\d+\])?")
"""Faults that another task name may mend."""
_MATCHED_BY_NAME = {
    re.compile(r"\.tasks\[\d+\]\.template\.spec\.containers"): "task",
    re.compile(r"\.tasks\[\d+\]\.template\.spec\.\w+\[\d+\]\.image"): "container",
}
"""Fields that are missing if a patch adds a task or container instead of changing one."""
_DEFAULTS = "spec.jobDefaults"
_DEFAULTS_OF_SPEC = frozenset({"queue", "priorityClassName", "schedulerName", "plugins"})
_TASK = re.compile(r"tasks(?:\[\d+\](?:\.name)?)?")


def default_labels_and_annotations_are_valid(facts: FlowFacts) -> Iterator[Violation]:
    if (defaults := facts.flow.spec.job_defaults) is not None:
        yield from metadata_violations(_DEFAULTS, defaults.labels, defaults.annotations, "a job")


def defaults_are_not_bookkeeping(facts: FlowFacts) -> Iterator[Violation]:
    # a vcjob gets no bookkeeping, neither from its template nor from jobDefaults, and to drop it
    # silently would be worse than to refuse it
    if (defaults := facts.flow.spec.job_defaults) is None:
        return
    for field, texts in (("labels", defaults.labels), ("annotations", defaults.annotations)):
        for key, value in (texts or {}).items():
            if not is_inherited(key, value):
                detail = (
                    "it records how an object was created, or is JobFlow's own, and jobs never get "
                    "it; remove it"
                )
                path = join_path(f"{_DEFAULTS}.{field}", key)
                yield Violation(path, Reason.FORBIDDEN, None, detail)


def patches_can_be_merged(facts: FlowFacts) -> Iterator[Violation]:
    for patch in facts.resolved_layers:
        if patch.layer.rank >= Rank.PATCH:
            for fault in patch_violations(patch.content, patch.path):
                yield as_written(fault, patch)


def layers_fit_their_jobs(facts: FlowFacts) -> Iterator[Violation]:
    # `env` is set in every container, so it may make a job that no API server stores
    for layer, detail in facts.layer_faults:
        yield Violation(f"{layer.owner}.env", Reason.TOO_MANY, None, detail)


def values_have_their_types(facts: FlowFacts) -> Iterator[Violation]:
    for layer, found in facts.misfits:
        for fault in found.violations:
            yield as_written(fault, layer)


def patched_elements_have_names(facts: FlowFacts) -> Iterator[Violation]:
    # an element without a name means the only one of the spec that is patched
    for resolved, patch, (path, word, name, known) in facts.unknown_elements:
        if name is None:
            detail = (
                f"{resolved.title} has {len(known)} {word}s "
                f"({join_names(known)}); name the one to change"
            )
            yield as_written(Violation(f"{path}.name", Reason.REQUIRED, None, detail), patch)


def jobs_are_valid(facts: FlowFacts) -> Iterator[Violation]:
    # without a known template, only rules that need none apply
    faults_of = _SpecFaults(facts.flow.spec.job_defaults)
    # a layer whose template is not known is judged alone
    resolved = {id(layer) for spec in facts.resolved_specs for layer in spec.layers}
    others = [
        layer for layer in facts.resolved_layers if not (layer.large or id(layer) in resolved)
    ]
    faults: Iterator[Violation] = chain(
        faults_of.defaults,
        chain.from_iterable(map(faults_of.spec, facts.resolved_specs)),
        chain.from_iterable(map(_faults_without_template, others)),
    )
    nameless = frozenset(
        patch.written_path(each.path)
        for _, patch, each in facts.unknown_elements
        if each.name is None
    )
    if nameless:  # `patched_elements_have_names` reports the cause of a missing value
        faults = (
            fault
            for fault in faults
            if fault.reason is not Reason.REQUIRED or nameless.isdisjoint(_beginnings(fault.path))
        )
    # cases share their step's patch, steps the flow's jobDefaults
    yield from {(each.path, each.message): each for each in islice(faults, MAX_FINDINGS)}.values()


class _SpecFaults:
    """Faults of merged specs that their templates do not have."""

    def __init__(self, defaults: JobDefaults | None) -> None:
        content: dict[str, Any] = msgspec.to_builtins(defaults) if defaults else {}
        content = {k: value for k, value in content.items() if k in _DEFAULTS_OF_SPEC and value}
        layer = Layer(Rank.PATCH, "jobDefaults", content)
        self._defaults = ResolvedLayer(-1, None, "spec", layer, content, open=False)
        found = _faults_without_template(self._defaults) if content else ()
        self.defaults = [*islice(found, MAX_FINDINGS)]
        self._of_defaults = {(fault.path, fault.message) for fault in self.defaults}
        """Faults of jobDefaults with any template."""
        self._of_templates: dict[int, frozenset[tuple[str, str]]] = {}
        self._located = 0

    def spec(self, resolved: ResolvedSpec) -> Iterator[Violation]:
        """Yield the faults of one merged spec, at their locations in the flow."""
        if not resolved.layers and not self._defaults.content:
            return
        faults = self._found(resolved)
        if resolved.open:
            faults = filter(_holds_for_any_run(resolved.spec), faults)
        locations = locations_of(resolved)
        if self._defaults.content:
            locations.append(LayerLocations(self._defaults, resolved.spec))
        is_patched = any(layer.layer.rank >= Rank.PATCH for layer in resolved.changes)
        for fault in faults:
            for place, word in _MATCHED_BY_NAME.items() if is_patched else ():
                if fault.reason is Reason.REQUIRED and place.fullmatch(fault.path):
                    hint = f"{fault.detail} (a patch finds its {word} by name)"
                    fault = replace(fault, detail=hint)
            self._located += 1
            # to locate takes longer than to find, so what is not shown stays at the whole layer
            is_shown = self._located <= MAX_SHOWN
            located = innermost(locations, fault) if is_shown else locations[0].at_root(fault)
            is_of_defaults = (located.path, located.message) in self._of_defaults
            if located.path.startswith(_DEFAULTS) and not is_of_defaults:
                # jobDefaults may fit other templates
                located = replace(located, detail=f"{located.detail} (with {resolved.title})")
            yield located

    def _found(self, resolved: ResolvedSpec) -> Iterator[Violation]:
        """Yield the faults at their paths in the spec, without those of the template itself, which
        was judged when it was created."""
        if resolved.template is None:
            yield from job_violations(resolved.spec, "")
            return
        fields = {key for layer in (self._defaults, *resolved.layers) for key in layer.content}
        if any(field.startswith("$") for field in fields):  # a directive may change every field
            fields.update(resolved.base)
        for fault in changed_violations(resolved.spec, fields):
            spec = resolved.template.spec
            if id(spec) not in self._of_templates:
                own = job_violations(spec, "")
                self._of_templates[id(spec)] = frozenset((each.path, each.message) for each in own)
            if (fault.path, fault.message) not in self._of_templates[id(spec)]:
                yield fault


def _faults_without_template(layer: ResolvedLayer) -> Iterator[Violation]:
    spec = merge({}, layer.content)
    locations = LayerLocations(layer, spec)
    holds = _holds_for_any_run(spec) if layer.open else lambda fault: True
    for fault in job_violations(spec, ""):
        needs_none = fault.reason in _REASONS_WITHOUT_TEMPLATE
        if _REPLACED_LIST.search(fault.path):
            needs_none = True
        elif fault.reason is Reason.INVALID and isinstance(fault.value, int):
            needs_none = fault.value < 0
        elif fault.reason is Reason.INVALID:
            ends = (found.end() for found in _SINGLE_VALUE.finditer(fault.path))
            needs_none = len(fault.path) in ends
        if needs_none and holds(fault):
            yield locations.in_layer(fault)


def _holds_for_any_run(spec: Mapping[str, Any]) -> Callable[[Violation], bool]:
    """Return a predicate: whether a fault holds for any value of the open references. It is neither
    at, above nor below one, nor about task names if one of these is open."""

    @cache
    def places() -> tuple[frozenset[str], frozenset[str]]:
        found = frozenset(open_paths(spec))
        return found, frozenset(part for place in found for part in _beginnings(place))

    def holds(fault: Violation) -> bool:
        open_places, above = places()
        path = fault.path.removeprefix(".")
        if _ABOUT_TASK_NAMES.fullmatch(path) and any(map(_TASK.fullmatch, open_places)):
            return False
        if path in above and fault.reason is not Reason.NOT_SUPPORTED:
            return False  # an unsupported word, such as the name of a plugin, stays a fault
        return open_places.isdisjoint(_beginnings(path))

    return holds


def _beginnings(path: str) -> Iterator[str]:
    """Yield `tasks[0].name`, `tasks[0]`, `tasks`."""
    yield path
    for end in range(len(path) - 1, 0, -1):
        if path[end] in ".[":
            yield path[:end]


RULES: Rules = (
    RuleGroup(
        lambda facts: facts.flow.spec.job_defaults,
        (default_labels_and_annotations_are_valid, defaults_are_not_bookkeeping),
    ),
    RuleGroup(
        lambda facts: facts.resolved_layers,
        (
            patches_can_be_merged,
            layers_fit_their_jobs,
            values_have_their_types,
            patched_elements_have_names,
        ),
    ),
    RuleGroup(
        lambda facts: facts.resolved_layers or facts.flow.spec.job_defaults, (jobs_are_valid,)
    ),
)
