"""Explanations of `jobflow why`: why a flow or a step waits, failed or was skipped. They decide
nothing, and have a bounded length: of many steps alike they name a few and count the others."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import FlowPhase, StepPhase
from jobflow.core.explain.flow import FlowExplainer, describe_new_flow
from jobflow.core.explain.item import describe_item, with_items
from jobflow.core.explain.root_causes import find_failed_steps, find_root_causes
from jobflow.core.explain.scheduling import NO_FACTS, QueuedJob, SchedulingFacts, find_queued_jobs
from jobflow.core.explain.step import StepExplainer
from jobflow.core.planning.context import PlanContext
from jobflow.core.planning.observed.view import View
from jobflow.core.reasons import FlowReason, StepReason
from jobflow.core.spec.concurrency import NO_GROUPS, Group, GroupName
from jobflow.core.text import MAX_NAMES, format_count

_NAMED_HOPS = 2
"""Hops of a long path that are named; the others are counted."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """An explanation of the phase of a flow or a step."""

    phase: str
    reason: str
    since: datetime | None
    """Time since which a step is in this phase, or a flow has finished or run, if known."""
    causes: tuple[str, ...]
    """At most MAX_NAMES steps that cause it, the most important first."""
    sentences: tuple[str, ...]


def list_queued_jobs(
    flow: JobFlow, name: str | None, *, index: int | None = None, now: datetime
) -> list[QueuedJob]:
    """Return the jobs whose scheduling explains the flow, the step or an item of the step. Raises
    KeyError if the flow has no such step."""
    if flow.final or not flow.status.state.phase:
        return []
    ctx = PlanContext.of(flow, View(), now)
    if name is None:
        return list(find_queued_jobs(ctx, range(len(ctx.layout.steps))))
    paths = find_root_causes(ctx, ctx.layout.graph.index[name])
    # the jobs of the steps that an explanation describes
    found = find_queued_jobs(ctx, [path[-1] for path in paths[: MAX_NAMES + 1]])
    return [job for job in found if index in (None, job.index) or job.step != name]


def explain(
    flow: JobFlow,
    *,
    now: datetime,
    facts: SchedulingFacts = NO_FACTS,
    groups: Mapping[GroupName, Group] = NO_GROUPS,
    above: str = "",
    with_namespace: bool = False,
) -> Explanation:
    """Explain a flow at `now` (aware), called `namespace/name` if asked to. Linear in steps and
    targets. `groups`: the other flows of the concurrency groups in which it waits, as far as they
    are known; `above`: the path from the outermost flow to the steps of this one."""
    ctx = PlanContext.of(flow, View(), now)
    explainer = FlowExplainer(ctx, facts, groups, above=above, with_namespace=with_namespace)
    status = flow.status
    return Explanation(
        phase=status.state.phase or FlowPhase.PENDING,
        reason=status.state.reason,
        since=status.completion_time or status.start_time,
        causes=explainer.list_causes(),
        sentences=(*explainer.describe(), *facts.notes),
    )


def explain_step(
    flow: JobFlow,
    name: str,
    *,
    index: int | None = None,
    now: datetime,
    facts: SchedulingFacts = NO_FACTS,
    groups: Mapping[GroupName, Group] = NO_GROUPS,
    above: str = "",
    on_page: bool = False,
) -> Explanation:
    """Explain a step, or an item of it, and its root causes. `on_page`: without times and commands
    that the page has beside it. Raises KeyError if the flow has no such step."""
    ctx = PlanContext.of(flow, View(), now)
    step = ctx.layout.graph.index[name]
    notes = facts.notes
    if index is not None:
        notes = (*filter(None, [describe_item(ctx.observed[step], index)]), *notes)
        ctx = with_items(ctx, step, index)
    explainer = StepExplainer(ctx, facts, groups, above=above, on_page=on_page)
    condition = explainer.condition(step)
    paths = find_root_causes(ctx, step)
    return Explanation(
        phase=condition.phase or StepPhase.WAITING,
        reason=condition.reason,
        since=explainer.since(step),
        causes=tuple(explainer.name(path[-1]) for path in paths[:MAX_NAMES]),
        sentences=(*_describe(ctx, explainer, step, paths), *notes),
    )


def _describe(
    ctx: PlanContext, explainer: StepExplainer, step: int, paths: Sequence[Sequence[int]]
) -> Iterator[str]:
    state = ctx.flow.status.state
    if not state.phase:
        yield describe_new_flow(ctx, ctx.flow.metadata.name)
        return
    # no step of an invalid flow has started, so none has more to say
    if state.reason == FlowReason.INVALID:
        yield f"The flow is invalid: {state.message}."
        return
    yield from explainer.describe(step)
    yield from explainer.describe_places(step)
    others = [path for path in paths if path[-1] != step]
    for path in others[:MAX_NAMES]:
        yield from _describe_path(explainer, path)
        yield from explainer.describe(path[-1])
    if (more := len(others) - MAX_NAMES) > 0:
        yield f"{format_count(more, 'more step')} also {'blocks' if more == 1 else 'block'} it."
    # a step that is already described is not named again as the cause
    described = [step, *(path[-1] for path in others[:MAX_NAMES])]
    reasons = {explainer.condition(step).reason for step in described}
    if StepReason.STOPPED in reasons:
        for failed in [failed for failed in find_failed_steps(ctx) if failed not in described][:1]:
            yield from explainer.describe(failed)
    if StepReason.BLOCKED in reasons:
        for cycle in ctx.layout.graph.cycles[:1]:
            names = [explainer.name(each) for each in cycle]
            if len(names) > 2 * MAX_NAMES:
                names = [*names[:MAX_NAMES], "…", *names[-2:]]
            yield f"These steps wait for each other: {' -> '.join(names)}."


def _describe_path(explainer: StepExplainer, path: Sequence[int]) -> Iterator[str]:
    """Yield `c waits for b, which waits for a.` for a cause beyond the targets of the step, which
    its own sentence names."""
    names = [explainer.name(step) for step in path[1:]]
    if len(names) < 2:
        return
    skipped = explainer.condition(path[1]).phase == StepPhase.SKIPPED
    verb = "was skipped because of" if skipped else "waits for"
    more = len(names) - _NAMED_HOPS - 2
    named = names if more <= 0 else names[: _NAMED_HOPS + 1]
    text = f", which {verb} ".join([f"{named[0]} {verb} {named[1]}", *named[2:]])
    if more > 0:
        text += f", and so on through {format_count(more, 'more step')} to {names[-1]}"
    yield f"{text}."
