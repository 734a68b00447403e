"""Why a flow, or one of its steps, stands where it stands: a paragraph of plain sentences.

From the flow's status and spec alone; the clock is given. It explains what was decided and decides
nothing. Its length is bounded whatever the flow: of many alike a few are named, the rest counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from jobflow.api.flow_status import FlowPhase, StepPhase
from jobflow.api.jobflow import JobFlow
from jobflow.core.explain.flow import FlowWords, not_taken_up
from jobflow.core.explain.root_causes import Root, failed, not_taken_for, roots
from jobflow.core.explain.step import StepWords
from jobflow.core.planning.context import PlanContext
from jobflow.core.planning.view import View
from jobflow.core.reasons import FlowReason, StepReason
from jobflow.core.suggest import Suggester, did_you_mean
from jobflow.core.text import SHOWN, counted, listed

_HOPS = 2
"""Steps of a long way that are named before the rest is counted."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why something stands as it does."""

    phase: str
    """Of the flow, or of the step that was asked about."""
    reason: str
    since: datetime | None
    """Of a step since when it is so, of a flow since when it is over or under way; None: nobody
    knows."""
    causes: tuple[str, ...]
    """The steps in which the waiting, failing or skipping begins, the most telling first; at most
    SHOWN."""
    sentences: tuple[str, ...]

    @property
    def text(self) -> str:
        """The paragraph."""
        return " ".join(self.sentences)


def unknown_step(flow: JobFlow, name: str) -> str:
    """That the flow has no such step, and which may be meant; empty where it has."""
    names = [step.name for step in flow.all_steps]
    if name in names:
        return ""
    guess = did_you_mean(Suggester(names).nearest(name))
    return f'JobFlow {flow.metadata.name} has no step "{name}"{guess}'


def explain(flow: JobFlow, *, now: datetime) -> Explanation:
    """Why the flow stands where it stands at `now` (aware). Linear in steps and targets."""
    words = FlowWords(PlanContext.of(flow, View(), now))
    status = flow.status
    return Explanation(
        phase=status.state.phase or FlowPhase.PENDING,
        reason=status.state.reason,
        since=status.completion_time or status.start_time,
        causes=words.causes(),
        sentences=tuple(words.told()),
    )


def explain_step(flow: JobFlow, name: str, *, now: datetime) -> Explanation:
    """Why a step stands where it stands, down to where that begins. Raises KeyError for a name that
    is no step (see `unknown_step`)."""
    ctx = PlanContext.of(flow, View(), now)
    step = ctx.graph.index[name]
    words = StepWords(ctx)
    memory = words.memory(step)
    found = roots(ctx, step)
    return Explanation(
        phase=memory.phase or StepPhase.WAITING,
        reason=memory.reason,
        since=words.since(step),
        causes=tuple(words.name(root.step) for root in found[:SHOWN]),
        sentences=tuple(_told(ctx, words, step, found)),
    )


def _told(ctx: PlanContext, words: StepWords, step: int, found: Sequence[Root]) -> Iterator[str]:
    state = ctx.flow.status.state
    if not state.phase:
        yield not_taken_up(ctx)
        return
    if state.reason == FlowReason.INVALID:
        yield f"The flow as a whole was refused: {state.message}."
        return
    yield from words.told(step)
    yield from _other_way(ctx, words, step)
    behind = [root for root in found if root.step != step]
    for root in behind[:SHOWN]:
        yield from _way(words, root.way)
        yield from words.told(root.step)
        yield from _other_way(ctx, words, root.step)
    if len(behind) > SHOWN:
        more = len(behind) - SHOWN
        yield f"{counted(more, 'more step')} {'holds' if more == 1 else 'hold'} it up likewise."
    told = [step, *(root.step for root in behind[:SHOWN])]
    yield from _what_stopped(ctx, words, told)
    yield from _loop(ctx, words, told)


def _way(words: StepWords, way: Sequence[int]) -> Iterator[str]:
    """`d waits for b, and b for a.`: the way to where it begins, where that is not just a target
    of the step itself, which has been said."""
    names = [words.name(step) for step in way[1:]]
    if len(names) < 2:
        return
    skipped = words.memory(way[1]).phase == StepPhase.SKIPPED
    verb = "was skipped for" if skipped else "waits for"
    hops = [f"{names[0]} {verb} {names[1]}"]
    hops += [f"{one} for {other}" for one, other in zip(names[1:], names[2:], strict=False)]
    if len(hops) <= _HOPS + 1:
        yield f"{listed(hops)}."
        return
    between = counted(len(hops) - _HOPS - 1, "more step")
    yield f"{', '.join(hops[:_HOPS])}, and so on over {between} down to {names[-1]}."


def _other_way(ctx: PlanContext, words: StepWords, step: int) -> Iterator[str]:
    """Why a branch was not taken."""
    memory = words.memory(step)
    if memory.phase == StepPhase.SKIPPED and memory.reason == StepReason.NOT_TAKEN:
        names = [words.named(target) for target in not_taken_for(ctx, step)[:SHOWN]]
        if names:
            yield f"It runs only if that fails: {listed(names)}. What depends on it passes it over."


def _what_stopped(ctx: PlanContext, words: StepWords, told: Sequence[int]) -> Iterator[str]:
    """The failure for which the flow has stopped, where that is why something does not start."""
    if any(words.memory(step).reason == StepReason.STOPPED for step in told):
        for step in [step for step in failed(ctx) if step not in told][:1]:
            yield from words.told(step)


def _loop(ctx: PlanContext, words: StepWords, told: Sequence[int]) -> Iterator[str]:
    """The steps that wait for each other, of a flow that was stored past admission."""
    if any(words.memory(step).reason == StepReason.BLOCKED for step in told):
        for cycle in ctx.graph.cycles[:1]:
            names = [words.name(step) for step in cycle]
            shown = names if len(names) <= 2 * SHOWN else [*names[:SHOWN], "…", *names[-2:]]
            yield f"These wait for each other: {' -> '.join(shown)}."
