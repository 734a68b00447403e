"""Sentences about a whole flow: its state, failures, running and waiting steps, and what to do."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from jobflow.api.flow.control import FailurePolicy
from jobflow.api.flow.status import ENDED_STEP_PHASES, HALTS, FlowPhase, StepPhase
from jobflow.core.explain.progress import format_run_progress, has_failed_pods
from jobflow.core.explain.remedies import format_submit
from jobflow.core.explain.root_causes import (
    TARGET_WAITS,
    describe_nothing_ran,
    find_failed_steps,
)
from jobflow.core.explain.scheduling import SchedulingFacts
from jobflow.core.explain.step import StepExplainer, describe_group, describe_outputs
from jobflow.core.names import root_of
from jobflow.core.planning.context import PlanContext
from jobflow.core.planning.flow.cleanup import expires
from jobflow.core.planning.flow.failure_policy import policy_of
from jobflow.core.planning.lifecycle import BY_SPEC, deadline
from jobflow.core.reasons import FlowReason, StepReason
from jobflow.core.spec.concurrency import Group, GroupName, get_group, needs_place
from jobflow.core.spec.items import describe_scaling
from jobflow.core.spec.readiness import fails_flow, has_tolerated_failures
from jobflow.core.text import (
    MAX_NAMES,
    format_command,
    format_count,
    format_elapsed,
    format_time,
    join_names,
    to_sentence,
)
from jobflow.core.work import has_own_job

_FLOW_REASONS = {
    StepReason.PARALLELISM: "until the flow runs fewer jobs",
    StepReason.CONCURRENCY: "for the flow to get its place",
    StepReason.SUSPENDED: "for the flow to be resumed",
}
"""Reasons for which any step of the flow would wait, and what for."""
_NORMAL_WAITS = TARGET_WAITS.union({StepReason.STOPPED}, _FLOW_REASONS)
"""Reasons of a waiting step that are not a problem of its own."""
_OUTPUT_REASONS = frozenset({FlowReason.EXPRESSION_ERROR, FlowReason.OUTPUTS_TOO_LARGE})
"""Reasons of a flow that failed although no step did."""
_NO_STEP_STARTS = "no step starts except those that handle the failure"
_AFTER_FAILURE: dict[FailurePolicy, str] = {
    FailurePolicy.STOP: f"so {_NO_STEP_STARTS}",
    FailurePolicy.ABORT: f"so running jobs are aborted, and {_NO_STEP_STARTS}",
    FailurePolicy.CONTINUE: "but steps that do not depend on it continue",
}
_ENDS = (StepPhase.COMPLETED, StepPhase.FAILED, StepPhase.SKIPPED)
_SKIP_CAUSES: dict[str, str] = {
    StepReason.UPSTREAM_FAILED: " because a dependency did not complete",
    StepReason.STOPPED: " because the flow had stopped",
    StepReason.NOT_TAKEN: " because the branch was not taken",
    StepReason.NOT_TARGETED: " because spec.targets leaves it out",
}


class FlowExplainer:
    """Describes one flow, as `namespace/name` if its namespace is asked for."""

    def __init__(
        self,
        ctx: PlanContext,
        facts: SchedulingFacts,
        groups: Mapping[GroupName, Group],
        *,
        above: str,
        with_namespace: bool,
    ) -> None:
        self._ctx = ctx
        self._groups = groups
        self._status = ctx.flow.status
        meta = ctx.flow.metadata
        self._name = f"{meta.namespace}/{meta.name}" if with_namespace else meta.name
        self._steps = StepExplainer(ctx, facts, groups, above=above)
        self._failed = find_failed_steps(ctx)
        self._running: list[int] = []
        self._held_up: list[int] = []
        """Waiting steps with a problem of their own."""
        self._waits_normally: list[int] = []
        """Waiting steps without one."""
        self._skipped: list[int] = []
        self._reused: list[int] = []
        self._partly_failed: list[int] = []
        """Completed steps of whose job some pods failed."""
        steps = ctx.layout.steps
        for step in range(len(steps)):
            condition = self._steps.condition(step)
            phase = condition.phase or StepPhase.WAITING
            if phase == StepPhase.SKIPPED:
                self._skipped.append(step)
            elif condition.reason == StepReason.REUSED:
                self._reused.append(step)
            elif phase == StepPhase.COMPLETED and has_failed_pods(steps[step], condition):
                self._partly_failed.append(step)
            elif phase == StepPhase.WAITING and condition.reason in _NORMAL_WAITS:
                self._waits_normally.append(step)
            elif phase == StepPhase.WAITING:
                self._held_up.append(step)
            elif phase not in ENDED_STEP_PHASES:
                self._running.append(step)

    def list_causes(self) -> tuple[str, ...]:
        """Return the names of the steps that best explain the flow's state."""
        # a failure explains more than a wait, and a wait more than a job that runs
        ranked = (*self._failed, *self._held_up, *self._running)
        return tuple(self._steps.name(step) for step in ranked[:MAX_NAMES])

    def describe(self) -> Iterator[str]:
        if not self._status.state.phase:
            yield describe_new_flow(self._ctx, self._name)
        elif self._ctx.flow.final:
            yield from self._describe_end()
            yield from self._describe_reused()
            yield from self._describe_failures()
            for step in self._partly_failed[:MAX_NAMES]:
                yield from self._steps.describe(step)
            for reason, steps in self._group(self._skipped, "reason").items():
                were = _choose(steps, "was", "were")
                why = _SKIP_CAUSES.get(reason, "")
                yield f"{self._list_steps(steps)} {were} skipped ({reason}){why}."
            yield from describe_nothing_ran(self._ctx)
            yield from self._describe_next_actions()
        else:
            yield from self._describe_state()
            yield from self._describe_reused()
            yield from self._describe_failures()
            yield from self._describe_running()
            groups = [*self._group(self._held_up, "reason", "message").values()]
            for steps in groups[:MAX_NAMES]:
                yield from self._steps.describe_together(steps)
            if more := sum(map(len, groups[MAX_NAMES:])):
                yield f"{format_count(more, 'more step')} cannot start for other reasons."
            yield from self._describe_normal_waits()
            if jobs := self._status.next_jobs:
                are = _choose(jobs, "job is", "jobs are")
                yield f"When the current jobs complete, the next {are} {join_names(jobs)}."

    def _describe_reused(self) -> Iterator[str]:
        if self._reused and self._status.reuse is not None:
            they = _choose(self._reused, "it is", "they are")
            since = f"unchanged since {self._status.reuse.flow}"
            yield f"{self._list_steps(self._reused)} did not run: {they} {since}."

    def _describe_failures(self) -> Iterator[str]:
        for step in self._failed[:MAX_NAMES]:
            yield from self._steps.describe(step)
        if (more := len(self._failed) - MAX_NAMES) > 0:
            yield f"{format_count(more, 'more step')} failed."

    def _describe_end(self) -> Iterator[str]:
        state, now = self._status.state, self._ctx.now
        ended, started = self._status.completion_time, self._status.start_time
        when = f", finished {_format_ago(ended, now)}" if ended else ""
        took = f" after {format_elapsed(started, ended)}" if ended and started else ""
        phases = Counter(observed.stored.phase for observed in self._ctx.observed)
        parts = [
            f"{number:,} {'is' if number == 1 else 'are'} {phase}"
            for phase in _ENDS
            if (number := phases[phase])
        ]
        total = format_count(len(self._ctx.layout.steps), "step")
        counts = f"; of {total}, {join_names(parts)}" if parts else ""
        yield f"JobFlow {self._name} is {state.phase}{when}{took}{counts}."
        if state.reason == FlowReason.INVALID:
            yield f"It was stored without validation and is invalid: {state.message}."
        elif state.reason in HALTS:
            yield to_sentence(state.message)
        elif state.reason == FlowReason.CONCURRENCY:
            yield f"All its steps were skipped: there was {state.message}."
            resubmit = format_command("jobflow resubmit", self._ctx.flow.metadata)
            yield f"{resubmit} runs it later, as a new flow."
        elif state.reason in _OUTPUT_REASONS:
            yield f"Its outputs could not be stored: {state.message}."
        yield from describe_outputs(self._status.outputs)

    def _describe_next_actions(self) -> Iterator[str]:
        flow, state = self._ctx.flow, self._status.state
        is_blocked = any(
            self._ctx.observed[step].stored.reason == StepReason.BLOCKED for step in self._skipped
        )
        # a retry runs the same spec, with the same end
        if state.reason in (FlowReason.INVALID, *_OUTPUT_REASONS) or is_blocked:
            submit = format_submit(flow)
            yield f"Correct its file, and submit it under another name: {submit}."
        elif state.phase == FlowPhase.FAILED:
            yield from self._describe_ways_on()
        elif has_tolerated_failures(flow) and not flow.is_child:
            retry = format_command("jobflow retry --tolerated", flow.metadata)
            yield f"{retry} runs tolerated failures and all that depends on them again."
        if (time := expires(flow)) is not None:
            at = format_time(time, self._ctx.now)
            yield f"It will be deleted at {at}, unless a flow reuses it then."

    def _describe_ways_on(self) -> Iterator[str]:
        """Describe a retry and a new flow, first what can help."""
        flow, root = self._ctx.flow, root_of(self._ctx.flow)
        resubmit = f"{format_command('jobflow resubmit', root)} runs all steps again, in a new flow"
        reuse = f"{format_command('jobflow submit FILE --reuse', root)} runs only what has changed"
        if flow.is_child:  # whether its parent tolerates its failure is not known here
            why = format_command("jobflow why", root)
            yield f"It can be retried only with its outermost flow; {why} says how."
            yield f"{resubmit}; with a corrected file, {reuse}."
            return
        retry = format_command("jobflow retry", flow.metadata)
        retry += " runs the failed steps and all that depends on them again"
        if own := self._find_own_faults():
            has = _choose(own, "has its", "have their")
            steps = f"{self._list_steps(own)} {has} own container or jobSpec"
            yield f"{steps}: if that is wrong, correct the file; {reuse}, in a new flow."
            yield f"{retry}, with the same spec; {resubmit}."
        else:
            yield f"{retry}, with the current templates."
            yield f"{resubmit}; with a corrected file, {reuse}."

    def _find_own_faults(self) -> list[int]:
        """Return the steps that have failed the flow by themselves, and would do so again, because
        no template can change their jobs."""
        if self._status.state.reason in HALTS:
            return []
        known = ((step, self._ctx.observed[step].step) for step in self._failed)
        conditions = ((step, spec, self._steps.condition(step)) for step, spec in known)
        return [
            step
            for step, spec, condition in conditions
            if fails_flow(spec, condition)
            and condition.reason != StepReason.CANCELLED_BY_USER
            and has_own_job(spec, spec.case_of(condition.decisions))
        ]

    def _describe_state(self) -> Iterator[str]:
        status, ctx, lifecycle = self._status, self._ctx, self._ctx.facts.lifecycle
        state, now = status.state, ctx.now
        phase = "suspended" if lifecycle.suspended_at is not None else state.phase
        started = f", started {_format_ago(status.start_time, now)}" if status.start_time else ""
        progress = f"; {status.progress} steps have finished" if status.progress else ""
        yield f"JobFlow {self._name} is {phase}{started}{progress}."
        if (at := lifecycle.suspended_at) is not None:
            created = " since it was created," if lifecycle.suspended_by == BY_SPEC else ""
            since = f" for {format_elapsed(at, now)} (since {format_time(at, now)})"
            jobs = "are aborted" if lifecycle.aborts_what_runs else "continue"
            resume = format_command("jobflow resume", ctx.flow.metadata)
            yield f"It has been suspended{created}{since}: no step starts, and running jobs {jobs}."
            yield f"{resume} resumes it."
        if state.reason in HALTS:
            yield to_sentence(f"{state.message}; it will be Failed once all jobs have ended")
            return
        if ctx.terminating:
            yield "It is being deleted, and no more steps start."
            return
        if state.reason == FlowReason.CONCURRENCY:
            yield f"It {state.message}."
            own = (False, get_group(ctx.flow, ctx.flow.spec.concurrency))
            if (group := self._groups.get(own)) is not None:
                yield from describe_group(group)
        conditions = ((ctx.observed[i].step, self._steps.condition(i)) for i in self._failed)
        if any(fails_flow(step, condition) for step, condition in conditions):
            effect = _AFTER_FAILURE[policy_of(ctx.flow)]
            yield f"A step has failed, {effect}; the flow will be Failed once it has finished."
        until = deadline(ctx.flow.spec.timeout, lifecycle)
        if until is not None:
            yield f"Its timeout of {ctx.flow.spec.timeout} expires at {format_time(until, now)}."

    def _describe_running(self) -> Iterator[str]:
        groups: dict[tuple[str, str], list[int]] = {}
        # steps with different messages are not summed up, unless there are too many
        messages = {""}
        for step in self._running:
            # the message of a step of items only counts its runs
            has_items = self._ctx.observed[step].step.for_each is not None
            message = "" if has_items else self._steps.condition(step).message
            if message in messages or len(messages) <= MAX_NAMES:
                messages.add(message)
            else:
                message = ""
            groups.setdefault((self._steps.condition(step).phase, message), []).append(step)
        for (phase, message), steps in groups.items():
            names = []
            for step in steps[:MAX_NAMES]:
                since, spec = self._steps.since(step), self._ctx.observed[step].step
                parts = [
                    f"for {format_elapsed(since, self._ctx.now)}" if since else "",
                    format_run_progress(spec, self._steps.condition(step)),
                    "" if spec.for_each is not None else self._steps.tasks(step),
                    describe_scaling(self._ctx.flow, spec),
                ]
                details = ", ".join(filter(None, parts))
                names.append(self._steps.name(step) + (f" ({details})" if details else ""))
            why = f"; {_choose(steps, 'it', 'each')} {message}" if message else ""
            subject = f"{_choose(steps, 'Step', 'Steps')} {join_names(names, total=len(steps))}"
            yield f"{subject} {_choose(steps, 'is', 'are')} {phase}{why}."
        for step in self._running:
            yield from self._steps.describe_scheduling(step)

    def _describe_normal_waits(self) -> Iterator[str]:
        """Describe steps with a probe, and a single step that waits for others, in full."""
        by_reason = self._group(self._waits_normally, "reason")
        for reason, what in _FLOW_REASONS.items():
            if steps := by_reason.pop(reason, []):
                if reason == StepReason.PARALLELISM:
                    what += f" ({describe_scaling(self._ctx.flow) or 'spec.parallelism'})"
                if reason == StepReason.CONCURRENCY and not needs_place(self._ctx.flow):
                    what = f"for places in {_choose(steps, 'its group', 'their groups')}"
                yield f"{self._list_steps(steps)} {_choose(steps, 'waits', 'wait')} {what}."
        queued = {place.step for place in self._status.places or () if not place.job}
        for step, name in enumerate(self._ctx.layout.graph.names):
            if name in queued:
                yield from self._steps.describe_places(step)
        waiting = by_reason.pop("", [])
        probing = [step for steps in by_reason.values() for step in steps]
        described = [*probing[:MAX_NAMES], *(waiting if len(waiting) == 1 else ())]
        for step in described:
            yield from self._steps.describe(step)
        others = [step for step in (*probing, *waiting) if step not in described]
        if others and len(waiting) > 1:
            waits = _choose(others, "waits", "wait")
            yield f"{self._list_steps(others)} {waits} for other steps."

    def _group(self, steps: Sequence[int], *fields: str) -> dict[str, list[int]]:
        groups: dict[str, list[int]] = {}
        for step in steps:
            condition = self._steps.condition(step)
            key = "\0".join(getattr(condition, field) for field in fields)
            groups.setdefault(key, []).append(step)
        return groups

    def _list_steps(self, steps: Sequence[int]) -> str:
        names = [self._steps.name(step) for step in steps[:MAX_NAMES]]
        return f"{_choose(steps, 'Step', 'Steps')} {join_names(names, total=len(steps))}"


def describe_new_flow(ctx: PlanContext, name: str) -> str:
    created = ctx.flow.metadata.creation_timestamp
    when = f" {_format_ago(created, ctx.now)}" if created else ""
    return (
        f"JobFlow {name} was created{when} and has not been processed yet; if this lasts, check "
        "that `jobflow serve` runs."
    )


def _format_ago(time: datetime, now: datetime) -> str:
    return f"{format_elapsed(time, now)} ago (at {format_time(time, now)})"


def _choose(things: Sequence[object], singular: str, plural: str) -> str:
    return singular if len(things) == 1 else plural
