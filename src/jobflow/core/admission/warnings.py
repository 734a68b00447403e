"""What is only suspicious: warnings, one for each kind of suspicion. Nothing here refuses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

import msgspec

from jobflow.core.admission.analysis.flow_facts import Outline
from jobflow.core.admission.analysis.resolved_specs import is_open
from jobflow.core.admission.phase_words import strange_phases
from jobflow.core.admission.rule import Group, Suspicion, anything
from jobflow.core.cel.references import references
from jobflow.core.violations import quoted, some

_TAKES_JOBS = frozenset({"", "Open"})
"""States of a queue; a fresh one has none until Volcano opens it."""


def templates_exist(outline: Outline) -> Iterator[str]:
    """A template may come later: the step waits for it."""
    templates = outline.known.templates
    if templates is None:
        return
    missing = [f'"{name}"' for name in outline.templates if name and name not in templates]
    if len(missing) == 1:
        yield f"JobTemplate {missing[0]} does not exist yet: its steps wait until it does"
    elif missing:
        yield f"JobTemplates {some(missing)} do not exist yet: their steps wait until they do"


def queues_take_jobs(outline: Outline) -> Iterator[str]:
    """The queues that the flow's vcjobs name, by their templates or, as far as known, patches."""
    if (queues := outline.known.queues) is not None:
        specs: list[Mapping[str, Any]] = [kind.spec for kind in outline.kinds]
        specs += [change.said for change in outline.changes]
        if (defaults := outline.flow.spec.job_defaults) is not None and not outline.kinds:
            specs.append({"queue": defaults.queue})
        yield from queue_warnings(specs, queues)


def dependencies_have_targets(outline: Outline) -> Iterator[str]:
    """A condition on nothing holds nothing up."""
    without = [
        f'"{outline.names[i]}"'
        for i, depends_on in outline.dependencies
        if (depends_on.condition or depends_on.strategy) and not depends_on.targets
    ]
    if without:
        plural = len(without) > 1
        yield (
            f"{'steps' if plural else 'step'} {some(without)} {'have' if plural else 'has'} a "
            "condition or strategy in dependsOn but no targets: nothing holds up the start"
        )


def probes_leave_conditions_alone(outline: Outline) -> Iterator[str]:
    """Where both are given the probe decides."""
    both = [
        f'"{outline.names[i]}"'
        for i, _ in outline.probes
        if (depends_on := outline.steps[i].depends_on) is not None and depends_on.condition
    ]
    if both:
        plural = len(both) > 1
        yield (
            f"{'steps' if plural else 'step'} {some(both)} {'have' if plural else 'has'} a probe, "
            "which decides alone: the condition beside it is not looked at"
        )


def references_stand_in_patches(outline: Outline) -> Iterator[str]:
    """References are read nowhere else."""
    found: dict[str, None] = {}
    for value in _elsewhere(outline):
        found |= dict.fromkeys(f"$({each.path})" for _, each in references(value, ""))
    if found:
        left = "are left as they are" if len(found) > 1 else "is left as it is"
        shown = some([quoted(text) for text in found])
        yield (
            f"{shown} in params, forEach.items and jobDefaults {left}, because only patches of "
            "steps have references"
        )


def _elsewhere(outline: Outline) -> list[Any]:
    """What of a flow might hold references, besides patches."""
    spec = outline.flow.spec
    found: list[Any] = [param.value for param in spec.params or ()]
    found += [step.for_each.items for _, step in outline.steered if step.for_each is not None]
    if spec.job_defaults is not None:
        found.append(msgspec.to_builtins(spec.job_defaults))
    return found


def daemons_serve_somebody(outline: Outline) -> Iterator[str]:
    """A daemon is ended when all other steps are over."""
    if outline.flows and outline.steered and all(step.daemon for step in outline.flows):
        yield (
            "every step is a daemon, and daemons are ended once all other steps are over: there "
            "is none to wait for"
        )


def phases_are_there(outline: Outline) -> Iterator[str]:
    """A comparison with a word that no phase is never holds."""
    read = [read for each, read, _ in outline.readings.read if "phase" in each.text]
    found = dict(strange_phases(chain.from_iterable(each.comparisons() for each in read)))
    shown = [
        f"{quoted(word)} (write {quoted(meant)})" if meant else quoted(word)
        for word, meant in found.items()
    ]
    if shown:
        are = "are no phases" if len(shown) > 1 else "is no phase"
        yield f"{some(shown)} {are}: no phase that an expression compares with it is ever the same"


FLOW_SUSPICIONS = (
    Group[Suspicion](anything, (templates_exist, queues_take_jobs)),
    Group[Suspicion](lambda outline: outline.dependencies, (dependencies_have_targets,)),
    Group[Suspicion](lambda outline: outline.probes, (probes_leave_conditions_alone,)),
    Group[Suspicion](_elsewhere, (references_stand_in_patches,)),
    Group[Suspicion](lambda outline: outline.expressive, (phases_are_there,)),
    Group[Suspicion](lambda outline: outline.steered, (daemons_serve_somebody,)),
)


def queue_warnings(specs: Iterable[Mapping[str, Any]], queues: Mapping[str, str]) -> Iterator[str]:
    """What is wrong with the queues that these vcjob specs name, in their order."""
    named = dict.fromkeys(
        queue
        for spec in specs
        if isinstance(queue := spec.get("queue"), str) and queue and not is_open(queue)
    )
    missing = [f'"{queue}"' for queue in named if queue not in queues]
    closed = [
        f'"{queue}" ({queues[queue]})'
        for queue in named
        if queue in queues and queues[queue] not in _TAKES_JOBS
    ]
    if missing:
        plural = len(missing) > 1
        yield (
            f"{'queues' if plural else 'queue'} {some(missing)} {'do' if plural else 'does'} not "
            "exist: Volcano refuses jobs for a queue that does not exist"
        )
    if closed:
        plural = len(closed) > 1
        yield (
            f"{'queues' if plural else 'queue'} {some(closed)} {'are' if plural else 'is'} not "
            "Open: Volcano refuses jobs for a queue that is not"
        )
