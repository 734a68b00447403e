"""What is to be said of a whole flow, in plain sentences, from its status and spec alone.

It explains what was decided and decides nothing. Of many steps that stand alike a few are named and
the rest is counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jobflow.api.control import FailurePolicy
from jobflow.api.flow_status import FlowPhase, StepPhase
from jobflow.core.explain.progress import format_run_progress
from jobflow.core.explain.root_causes import find_failed_steps
from jobflow.core.explain.step import StepExplainer
from jobflow.core.planning.context import PlanContext
from jobflow.core.planning.flow.cleanup import expires
from jobflow.core.planning.flow.failure_policy import policy_of
from jobflow.core.planning.lifecycle import BY_SPEC, HALTS, deadline
from jobflow.core.reasons import FlowReason, StepReason
from jobflow.core.spec.readiness import fails_flow
from jobflow.core.text import (
    MAX_NAMES,
    format_command,
    format_count,
    format_elapsed,
    format_since,
    format_time,
    join_names,
)

_FOR_THE_FLOW = {
    StepReason.PARALLELISM: "for room among the jobs of the flow",
    StepReason.SUSPENDED: "for the flow to be resumed",
}
"""Reasons of a waiting step that are those of the whole flow, and what it waits for."""
_QUIET = frozenset({"", StepReason.WAITING_FOR_PROBE, StepReason.STOPPED, *_FOR_THE_FLOW})
"""Reasons of a waiting step that are no trouble of its own."""
_STOPPED: dict[FailurePolicy, str] = {
    FailurePolicy.STOP: "so nothing starts any more but what handles that",
    FailurePolicy.ABORT: "so what runs is aborted, and nothing starts any more but what handles "
    "that",
    FailurePolicy.CONTINUE: "and what does not depend on it goes on",
}
"""What becomes of the rest, by the flow's failurePolicy."""
_ENDS = (StepPhase.COMPLETED, StepPhase.FAILED, StepPhase.SKIPPED)
_SKIPPED_FOR: dict[str, str] = {
    StepReason.UPSTREAM_FAILED: ", for what has to complete before did not",
    StepReason.STOPPED: ", for the flow had stopped",
    StepReason.NOT_TAKEN: ", for that branch was not taken",
}


class FlowExplainer:
    """Tells of one flow."""

    def __init__(self, ctx: PlanContext) -> None:
        self._ctx = ctx
        self._status = ctx.flow.status
        self._name = ctx.flow.metadata.name
        self._steps = StepExplainer(ctx)
        self._failed = find_failed_steps(ctx)
        self._begun: list[int] = []
        self._held_up: list[int] = []
        """Those that wait for something else than other steps."""
        self._behind: list[int] = []
        """Those that wait for other steps."""
        self._skipped: list[int] = []
        for step in range(len(ctx.steps)):
            self._sort(step)

    def _sort(self, step: int) -> None:
        memory = self._steps.memory(step)
        phase = memory.phase or StepPhase.WAITING
        if phase == StepPhase.SKIPPED:
            self._skipped.append(step)
        elif phase == StepPhase.WAITING:
            (self._behind if memory.reason in _QUIET else self._held_up).append(step)
        elif phase not in _ENDS:
            self._begun.append(step)

    def causes(self) -> tuple[str, ...]:
        """The steps that say most about why the flow stands as it does."""
        ranked = (*self._failed, *self._held_up, *self._begun)
        return tuple(self._steps.name(step) for step in ranked[:MAX_NAMES])

    def told(self) -> Iterator[str]:
        """The whole paragraph."""
        if not self._status.state.phase:
            yield describe_new_flow(self._ctx)
        elif self._ctx.flow.final:
            yield from self._over()
        else:
            yield self._under_way()
            yield from self._suspended()
            yield from self._ending()
            yield from self._failures()
            yield from self._running()
            yield from self._trouble()
            yield from self._waiting()
            yield from self._next()

    def _failures(self) -> Iterator[str]:
        for step in self._failed[:MAX_NAMES]:
            yield from self._steps.told(step)
        if len(self._failed) > MAX_NAMES:
            yield f"{format_count(len(self._failed) - MAX_NAMES, 'more step')} failed."

    # ---------------------------------------------------------------------- over

    def _over(self) -> Iterator[str]:
        status, now = self._status, self._ctx.now
        ended, begun = status.completion_time, status.start_time
        when = f" {format_elapsed(ended, now)} ago (at {format_time(ended, now)})" if ended else ""
        took = f", {format_elapsed(begun, ended)} after it was taken up" if ended and begun else ""
        yield f"JobFlow {self._name} ended {status.state.phase}{when}{took}{self._by_phase()}."
        if status.state.reason == FlowReason.INVALID:
            yield f"Admission would refuse it, and it was stored past that: {status.state.message}."
        elif status.state.reason in HALTS:
            yield f"{status.state.message[:1].upper()}{status.state.message[1:]}."
        yield from self._failures()
        yield from self._skips()
        yield from self._what_now()

    def _what_now(self) -> Iterator[str]:
        """What becomes of it, and what can be done."""
        flow, state = self._ctx.flow, self._status.state
        if state.reason == FlowReason.INVALID:
            yield "Delete it, correct it, and apply it again."
        elif state.phase == FlowPhase.FAILED:
            retry = format_command("jobflow retry", flow.metadata)
            yield (
                f"{retry} runs what failed again, from the templates as they then are; to change "
                "the flow itself, delete it and apply it anew."
            )
        if (goes := expires(flow)) is not None:
            yield f"It is deleted at {format_time(goes, self._ctx.now)}."

    def _by_phase(self) -> str:
        """`: of 5 steps 4 are Completed and 1 is Skipped`."""
        counts: dict[str, int] = {}
        for observed in self._ctx.observed:
            counts[observed.stored.phase] = counts.get(observed.stored.phase, 0) + 1
        said = [
            f"{counts[phase]:,} {'is' if counts[phase] == 1 else 'are'} {phase}"
            for phase in _ENDS
            if phase in counts
        ]
        return (
            f"; of {format_count(len(self._ctx.steps), 'step')} {join_names(said)}" if said else ""
        )

    def _skips(self) -> Iterator[str]:
        by_reason: dict[str, list[str]] = {}
        for step in self._skipped:
            reason = self._steps.memory(step).reason
            by_reason.setdefault(reason, []).append(self._steps.name(step))
        for reason, names in by_reason.items():
            why = _SKIPPED_FOR.get(reason, "")
            yield f"{_steps(names)} {_be(names, 'was', 'were')} skipped ({reason}){why}."

    # ---------------------------------------------------------------- under way

    def _under_way(self) -> str:
        status = self._status
        how_long = format_since(status.start_time, self._ctx.now)
        over = f"; {status.progress} steps are over" if status.progress else ""
        return f"JobFlow {self._name} is {status.state.phase} and under way{how_long}{over}."

    def _suspended(self) -> Iterator[str]:
        course = self._ctx.lifecycle
        if course.suspended_at is None:
            return
        how_long = format_since(course.suspended_at, self._ctx.now)
        by = "It was created suspended, and has been so" if course.suspended_by == BY_SPEC else ""
        what = "what ran is aborted" if course.aborts_what_runs else "what runs runs to its end"
        resume = format_command("jobflow resume", self._ctx.flow.metadata)
        yield (
            f"{by or 'It has been suspended'}{how_long}: nothing starts, and {what}. {resume} lets "
            "it go on."
        )

    def _ending(self) -> Iterator[str]:
        state, ctx = self._status.state, self._ctx
        until = deadline(ctx.flow.spec.timeout, ctx.lifecycle)
        if state.reason in HALTS:
            yield f"It ends, for {state.message}: it is Failed once every job has ended."
        elif ctx.terminating:
            yield "It is being deleted, and nothing starts any more."
        elif any(fails_flow(ctx.observed[i].step, self._steps.memory(i)) for i in self._failed):
            what = _STOPPED[policy_of(ctx.flow)]
            yield (
                f"A step has failed, {what}, and the flow will be Failed once what runs has ended."
            )
        if until is not None and state.reason not in HALTS and not ctx.terminating:
            yield f"Its timeout of {ctx.flow.spec.timeout} is over at {format_time(until, ctx.now)}."

    def _running(self) -> Iterator[str]:
        """Steps in the same phase for the same cause are told together; at most SHOWN causes."""
        by_cause: dict[tuple[str, str], list[int]] = {}
        causes = {""}
        for step in self._begun:
            cause = self._cause(step)
            if cause in causes or len(causes) <= MAX_NAMES:
                causes.add(cause)
            else:
                cause = ""
            by_cause.setdefault((self._steps.memory(step).phase, cause), []).append(step)
        for (phase, cause), steps in by_cause.items():
            names = [self._running_step(step) for step in steps[:MAX_NAMES]]
            subject = join_names(names, total=len(steps))
            why = f"; {_be(steps, 'it', 'each')} {cause}" if cause else ""
            yield f"{_noun(steps)} {subject} {_be(steps, 'is', 'are')} {phase}{why}."

    def _cause(self, step: int) -> str:
        """The message of a step that has one job: of several, the counts of the runs say more."""
        about = self._ctx.observed[step].step
        return "" if about.for_each is not None else self._steps.memory(step).message

    def _running_step(self, step: int) -> str:
        since = self._steps.since(step)
        how_long = f"for {format_elapsed(since, self._ctx.now)}" if since else ""
        about = self._ctx.observed[step].step
        runs = format_run_progress(about, self._steps.memory(step))
        tasks = "" if about.for_each is not None else self._steps.tasks(step)
        said = ", ".join(filter(None, (how_long, runs, tasks)))
        return f"{self._steps.name(step)} ({said})" if said else self._steps.name(step)

    def _trouble(self) -> Iterator[str]:
        """Steps that cannot start for the same cause are told together."""
        by_cause: dict[tuple[str, str], list[int]] = {}
        for step in self._held_up:
            memory = self._steps.memory(step)
            by_cause.setdefault((memory.reason, memory.message), []).append(step)
        causes = list(by_cause.values())
        for steps in causes[:MAX_NAMES]:
            yield from self._steps.told_together(steps)
        if left := sum(map(len, causes[MAX_NAMES:])):
            yield f"{format_count(left, 'more step')} cannot start for other reasons."

    def _waiting(self) -> Iterator[str]:
        """What waits for a probe, or alone, is told whole."""
        by_reason: dict[str, list[int]] = {}
        for step in self._behind:
            by_reason.setdefault(self._steps.memory(step).reason, []).append(step)
        for reason, what in _FOR_THE_FLOW.items():
            if steps := by_reason.pop(reason, []):
                subject = self._names(steps)
                yield f"{_noun(steps)} {subject} {_be(steps, 'waits', 'wait')} {what}."
        rest = by_reason.pop("", [])
        probing = [step for steps in by_reason.values() for step in steps]
        whole = [*probing[:MAX_NAMES], *(rest if len(rest) == 1 else ())]
        for step in whole:
            yield from self._steps.told(step)
        left = [step for step in (*probing, *rest) if step not in whole] if len(rest) > 1 else []
        if left:
            subject, wait = self._names(left), _be(left, "waits", "wait")
            yield f"{_noun(left)} {subject} {wait} for other steps."

    def _names(self, steps: Sequence[int]) -> str:
        return join_names([self._steps.name(step) for step in steps[:MAX_NAMES]], total=len(steps))

    def _next(self) -> Iterator[str]:
        if jobs := self._status.next_jobs:
            noun, comes = _be(jobs, "job", "jobs"), _be(jobs, "comes", "come")
            yield f"Once the jobs that are there complete, the {noun} {join_names(jobs)} {comes} next."


def describe_new_flow(ctx: PlanContext) -> str:
    """Of a flow without a status."""
    made, now = ctx.flow.metadata.creation_timestamp, ctx.now
    when = f" {format_elapsed(made, now)} ago (at {format_time(made, now)})" if made else ""
    return (
        f"JobFlow {ctx.flow.metadata.name} was made{when} and nobody has taken it up yet; where "
        "that lasts, look whether `jobflow serve` runs."
    )


def _steps(names: Sequence[str]) -> str:
    """`Step a`, `Steps a and b`."""
    return f"{_noun(names)} {join_names(names)}"


def _noun(steps: Sequence[object]) -> str:
    return _be(steps, "Step", "Steps")


def _be(those: Sequence[object], one: str, several: str) -> str:
    return one if len(those) == 1 else several
