"""What is only suspicious: warnings, one for each kind of suspicion. Nothing here refuses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import Any

import msgspec

from jobflow.api.flow_status import FlowPhase, StepPhase
from jobflow.api.job import JobPhase
from jobflow.core.admission.analysis.flow_facts import FlowFacts
from jobflow.core.admission.analysis.patch_locations import as_written
from jobflow.core.admission.analysis.resolved_specs import is_open
from jobflow.core.admission.lookalikes import MOST as MOST_LOOKALIKES
from jobflow.core.admission.lookalikes import lookalikes
from jobflow.core.admission.rule import Group, Suspicion, anything
from jobflow.core.admission.volcano.job_view import JobView, job_view
from jobflow.core.cel.references import find_references
from jobflow.core.cel.variables import Comparison
from jobflow.core.suggest import Suggester, did_you_mean
from jobflow.core.violations import Doubt, Reason, quote, some

_TAKES_JOBS = frozenset({"", "Open"})
"""States of a queue; a fresh one has none until Volcano opens it."""


def templates_exist(facts: FlowFacts) -> Iterator[str]:
    """A template may come later: the step waits for it."""
    templates = facts.known.templates
    if templates is None:
        return
    missing = [f'"{name}"' for name in facts.templates if name and name not in templates]
    if len(missing) == 1:
        yield f"JobTemplate {missing[0]} does not exist yet: its steps wait until it does"
    elif missing:
        yield f"JobTemplates {some(missing)} do not exist yet: their steps wait until they do"


def queues_take_jobs(facts: FlowFacts) -> Iterator[str]:
    """The queues that the flow's vcjobs name, by their templates or, as far as known, patches."""
    if (queues := facts.known.queues) is not None:
        specs: list[Mapping[str, Any]] = [kind.spec for kind in facts.resolved_specs]
        specs += [change.said for change in facts.changes]
        if (defaults := facts.flow.spec.job_defaults) is not None and not facts.resolved_specs:
            specs.append({"queue": defaults.queue})
        yield from queue_warnings(specs, queues)


def dependencies_have_targets(facts: FlowFacts) -> Iterator[str]:
    """A condition on nothing holds nothing up."""
    without = [
        f'"{facts.names[i]}"'
        for i, depends_on in facts.dependencies
        if (depends_on.condition or depends_on.strategy) and not depends_on.targets
    ]
    if without:
        plural = len(without) > 1
        yield (
            f"{'steps' if plural else 'step'} {some(without)} {'have' if plural else 'has'} a "
            "condition or strategy in dependsOn but no targets: nothing holds up the start"
        )


def probes_leave_conditions_alone(facts: FlowFacts) -> Iterator[str]:
    """Where both are given the probe decides."""
    both = [
        f'"{facts.names[i]}"'
        for i, _ in facts.probes
        if (depends_on := facts.steps[i].depends_on) is not None and depends_on.condition
    ]
    if both:
        plural = len(both) > 1
        yield (
            f"{'steps' if plural else 'step'} {some(both)} {'have' if plural else 'has'} a probe, "
            "which decides alone: the condition beside it is not looked at"
        )


def references_stand_in_patches(facts: FlowFacts) -> Iterator[str]:
    """References are read nowhere else."""
    found: dict[str, None] = {}
    for value in _elsewhere(facts):
        found |= dict.fromkeys(f"$({each.path})" for _, each in find_references(value, ""))
    if found:
        left = "are left as they are" if len(found) > 1 else "is left as it is"
        shown = some([quote(text) for text in found])
        yield (
            f"{shown} in params, forEach.items and jobDefaults {left}, because only patches of "
            "steps have references"
        )


def _elsewhere(facts: FlowFacts) -> list[Any]:
    """What of a flow might hold references, besides patches."""
    spec = facts.flow.spec
    found: list[Any] = [param.value for param in spec.params or ()]
    found += [
        step.for_each.items for _, step in facts.controlled_steps if step.for_each is not None
    ]
    if spec.job_defaults is not None:
        found.append(msgspec.to_builtins(spec.job_defaults))
    return found


def daemons_serve_somebody(facts: FlowFacts) -> Iterator[str]:
    """A daemon is ended when all other steps are over."""
    if facts.flows and facts.controlled_steps and all(step.daemon for step in facts.flows):
        yield (
            "every step is a daemon, and daemons are ended once all other steps are over: there "
            "is none to wait for"
        )


def phases_are_there(facts: FlowFacts) -> Iterator[str]:
    """A comparison with a word that no phase is never holds."""
    read = [read for each, read, _ in facts.readings.read if "phase" in each.text]
    found = dict(strange_phases(chain.from_iterable(each.comparisons() for each in read)))
    shown = [
        f"{quote(word)} (write {quote(meant)})" if meant else quote(word)
        for word, meant in found.items()
    ]
    if shown:
        are = "are no phases" if len(shown) > 1 else "is no phase"
        yield f"{some(shown)} {are}: no phase that an expression compares with it is ever the same"


FLOW_SUSPICIONS = (
    Group[Suspicion](anything, (templates_exist, queues_take_jobs)),
    Group[Suspicion](lambda facts: facts.dependencies, (dependencies_have_targets,)),
    Group[Suspicion](lambda facts: facts.probes, (probes_leave_conditions_alone,)),
    Group[Suspicion](_elsewhere, (references_stand_in_patches,)),
    Group[Suspicion](lambda facts: facts.steps_with_expressions, (phases_are_there,)),
    Group[Suspicion](lambda facts: facts.controlled_steps, (daemons_serve_somebody,)),
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


OF_STEPS = frozenset({*StepPhase, *JobPhase})
OF_FLOWS = frozenset({FlowPhase.SUCCEED, FlowPhase.FAILED})
"""What `flow.phase` may be in finally."""

_OTHERS = frozenset({"outputs", "item", "params"})
"""Whose `phase` is the user's own."""
_SAME = {
    "complete": "Completed",
    "done": "Completed",
    "error": "Failed",
    "failure": "Failed",
    "finished": "Completed",
    "succeed": "Completed",
    "succeeded": "Completed",
    "success": "Completed",
    "successful": "Completed",
    "omitted": "Skipped",
}


def strange_phases(compared: Iterable[Comparison]) -> Iterator[tuple[str, str]]:
    """Each phase that nothing is ever in, and the one that was probably meant, or nothing."""
    suggesters = {known: Suggester(sorted(known)) for known in (OF_STEPS, OF_FLOWS)}
    for path, bound, word, _ in compared:
        *of, last = path
        if last != "phase" or not _OTHERS.isdisjoint(of) or (bound and not of):
            continue
        known = OF_FLOWS if of == ["flow"] and not bound else OF_STEPS
        if word not in known:
            meant = _SAME.get(word.lower()) or suggesters[known].nearest(word) or ""
            yield word, "Succeed" if known is OF_FLOWS and meant == "Completed" else meant


FlowDoubt = Callable[[FlowFacts], Iterator[Doubt]]
GUESSES = 100
"""Names of tasks and containers for which there is a guess, for all patches of a flow."""


def fields_of_patches_exist(facts: FlowFacts) -> Iterator[Doubt]:
    """Volcano drops a field that it does not know."""
    for change, found in facts.misfits:
        for doubt in found.doubts:
            yield as_written(doubt, change.path, change.written)


def patches_mean_their_template(facts: FlowFacts) -> Iterator[Doubt]:
    """A task or container with a name that the template does not have is added to the job."""
    said: set[str] = set()
    for kind, change, stranger in facts.strangers:
        if stranger.path in said or stranger.name is None:
            continue
        said.add(stranger.path)
        near = Suggester(stranger.known).nearest(stranger.name) if len(said) <= GUESSES else None
        detail = (
            f'template "{kind.template.metadata.name}" has no {stranger.word} '
            f"{quote(stranger.name)}, so the patch adds one{did_you_mean(near)}"
        )
        reason = Reason.NOT_FOUND if near else None
        doubt = Doubt(f"{stranger.path}.name", detail, reason, stranger.name)
        yield as_written(doubt, change.path, change.written)


def references_are_written_as_such(facts: FlowFacts) -> Iterator[Doubt]:
    """A text that only looks like a reference stays as it is."""
    left = MOST_LOOKALIKES
    for change in facts.changes:
        for found in lookalikes(change.written, change.path):
            detail = (
                f"{quote(found.text)} looks like a reference but is not one, so it is left as it "
                f"is ({found.advice}); if that is intended, write $$( instead of $("
            )
            yield Doubt(found.path, detail)
            left -= 1
        if left <= 0:
            return


FLOW_DOUBTS = (
    Group[FlowDoubt](
        lambda facts: facts.changes,
        (
            fields_of_patches_exist,
            patches_mean_their_template,
            references_are_written_as_such,
        ),
    ),
)


def template_doubts(spec: Any, path: str) -> Iterator[Doubt]:
    """Doubts about the spec of a JobTemplate at `path`, except unknown fields."""
    job = job_view(spec, path, None)
    yield from _tasks_without_pods(job)
    yield from _pods_that_start_again(job)
    for place, reference in islice(find_references(spec, path), MOST_LOOKALIKES):
        text = quote(f"$({reference.path})")
        yield Doubt(
            place, f"{text} is left as it is, because only patches of steps have references"
        )


def _tasks_without_pods(job: JobView) -> Iterator[Doubt]:
    """Volcano takes a missing number for 0. A 0 that is written is legal beside a
    task that has pods."""
    unset = [task for task in job.tasks if task.raw.get("replicas") is None]
    for task in unset:
        detail = "without replicas this task has no pod, and a job without pods never ends"
        yield Doubt(f"{task.path}.replicas", detail, Reason.REQUIRED)
    if job.tasks and not unset and all(task.replicas == 0 for task in job.tasks):
        detail = (
            "every task has 0 replicas, and a job without pods never ends; set the replicas of at "
            "least one task"
        )
        yield Doubt(f"{job.path}.tasks", detail, Reason.REQUIRED)


def _pods_that_start_again(job: JobView) -> Iterator[Doubt]:
    """Kubernetes starts the containers of such a pod again whenever they end."""
    for task in job.tasks:
        if task.pod_spec.get("containers") and not task.pod_spec.get("restartPolicy"):
            detail = (
                "without a restartPolicy, Kubernetes restarts containers whenever they end, so "
                "these pods never finish; set it to Never or OnFailure"
            )
            yield Doubt(f"{task.path}.template.spec.restartPolicy", detail)
