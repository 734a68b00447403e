"""What is to be said of one step, in plain sentences, from the flow's status and spec alone.

It explains what was decided and decides nothing. What it repeats of a status is bounded there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from jobflow.api.flow_status import StepCondition, StepPhase
from jobflow.api.job import JobPhase
from jobflow.api.jobflow import Condition, Strategy
from jobflow.core.explain.progress import describe_details, format_task_progress
from jobflow.core.explain.root_causes import find_blocking_targets
from jobflow.core.planning.context import PlanContext
from jobflow.core.reasons import StepReason
from jobflow.core.spec.readiness import get_condition, get_strategy
from jobflow.core.text import (
    MAX_NAMES,
    format_command,
    format_duration,
    format_elapsed,
    format_time,
    join_names,
)

_REACHED: Mapping[Condition, tuple[str, str]] = {
    Condition.COMPLETED: ("has completed", "have completed"),
    Condition.FAILED: ("has failed", "have failed"),
    Condition.FINISHED: ("has ended", "have ended"),
    Condition.RUNNING: ("runs", "run"),
}
"""What one or several targets have to do, by what is wanted of them."""

_SHORT_OUTPUTS = 120
"""Characters of outputs that are repeated."""
_OF_ITSELF = ("waits ", "will ", "runs ")
"""How messages begin that say what the step itself does."""

REMEDIES: Mapping[StepReason, str] = {
    StepReason.WAITING_FOR_TEMPLATE: "Apply the JobTemplate {template}, and the step starts by "
    "itself.",
    StepReason.WAITING_FOR_PROBE: "",
    StepReason.STARTING: "That takes moments; where it does not, look whether `jobflow serve` "
    "runs.",
    StepReason.CREATE_REFUSED: "Remove the cause, such as a full quota. JobFlow tries again by "
    "itself{again}.",
    StepReason.NAME_IN_USE: "It starts by itself once that job is gone.",
    StepReason.JOB_LOST: "Nothing has to be done{again}.",
    StepReason.RETRYING: "{look}",
    StepReason.SUSPENDED: "{resume} lets it go on.",
    StepReason.PARALLELISM: "It starts by itself once a job of the flow has ended.",
    StepReason.TERMINATING: "",
    StepReason.BLOCKED: "Nothing will free it: cancel and delete the flow, correct it, and apply "
    "it anew.",
    StepReason.PODS_UNREAD: "JobFlow tries to read them again for up to five minutes.",
    StepReason.CANCELLED: "",
    StepReason.TIMEOUT: "",
    StepReason.FAILURE_POLICY: "",
    StepReason.DAEMON_ENDED: "",
    StepReason.OUTPUTS_MISSING: "Its pods were gone before they could be asked: what names its "
    "outputs finds none.",
    StepReason.JOB_FAILED: "{look}",
    StepReason.JOB_TERMINATED: "A policy of its template, or a command, has ended it: "
    "{describe} says more.",
    StepReason.JOB_ABORTED: "A policy of its template, or a command, has ended it: "
    "{describe} says more.",
    StepReason.REFUSED: "Correct the template, and {retry}; a patch is corrected in the flow, "
    "which is then applied anew.",
    StepReason.NAME_CONFLICT: "",
    StepReason.PROBE_UNSATISFIABLE: "Correct the probe, or the job that it looks at.",
    StepReason.OUTPUTS_TOO_LARGE: "Write less as termination message: at most 4 KiB a step and "
    "64 KiB a flow.",
    StepReason.EXPRESSION_ERROR: "Ask first whether a value is there, such as by "
    '`has(steps["a"].outputs.x)`, and apply the flow anew.',
    StepReason.UNTIL_NOT_REACHED: "",
    StepReason.NOT_TAKEN: "",
    StepReason.UPSTREAM_FAILED: "",
    StepReason.STOPPED: "",
}
"""What would free a step, or keep it from failing again; empty where the message says that."""


class StepExplainer:
    """Tells of the steps of one flow."""

    def __init__(self, ctx: PlanContext) -> None:
        self._ctx = ctx
        self._now = ctx.now

    def told(self, step: int) -> Iterator[str]:
        """How the step stands, since when, why, and what can be done about it."""
        memory = self.memory(step)
        tell = self._TELLERS.get(memory.phase or StepPhase.WAITING, StepExplainer._running)
        yield from tell(self, step, memory)
        yield from describe_details(self._ctx.observed[step].step, memory, self._now)
        if remedy := self._remedy(step, memory):
            yield remedy

    def told_together(self, steps: Sequence[int]) -> Iterator[str]:
        """Tell of steps that wait for the same cause; of one it is `told`."""
        if len(steps) == 1:
            yield from self.told(steps[0])
            return
        first = self.memory(steps[0])
        names = join_names([self.name(step) for step in steps[:MAX_NAMES]], total=len(steps))
        why = f": {first.message}" if first.message else ""
        yield f"Steps {names} are Waiting ({first.reason}){why}."
        times = [self.memory(step).next_attempt_time for step in steps]
        until = min((time for time in times if time is not None), default=None)
        if remedy := self._remedy(
            steps[0], msgspec.structs.replace(first, next_attempt_time=until)
        ):
            yield remedy

    def memory(self, step: int) -> StepCondition:
        """What the status says of it."""
        return self._ctx.observed[step].stored

    def name(self, step: int) -> str:
        return self._ctx.observed[step].step.name

    def named(self, step: int) -> str:
        """`c (Running)`."""
        return f"{self.name(step)} ({self.memory(step).phase or StepPhase.WAITING})"

    def since(self, step: int) -> datetime | None:
        """Since when it stands as it does; None where nobody knows."""
        memory = self.memory(step)
        record = self._ctx.records.get(memory.job)
        histories = (record.running_histories if record else None) or ()
        known = [memory.last_transition_time, *(each.start_timestamp for each in histories[-1:])]
        known += [record.start_timestamp if record else None, memory.create_time]
        return next((moment for moment in known if moment is not None), None)

    def until(self, step: int) -> str:
        """`until c (Running) and d (Pending) have completed`: what a waiting step waits for."""
        about = self._ctx.observed[step].step
        held = find_blocking_targets(self._ctx, step)
        names = [self.named(target) for target in held[:MAX_NAMES]]
        any_of = get_strategy(about) is Strategy.ANY and len(held) > 1
        all_names = join_names(names, total=len(held), last="or" if any_of else "and")
        if about.depends_on is not None and about.depends_on.probe is not None:
            return f"until its probe passes on {all_names}"
        one, several = _REACHED[get_condition(about)]
        if any_of:
            return f"until one of {all_names} {one}"
        return f"until {all_names} {one if len(held) == 1 else several}"

    def tasks(self, step: int) -> str:
        """`worker 3/4 done and ps 2/2 running`; empty where nothing is known."""
        return join_names(format_task_progress(self.memory(step).task_status_count))

    # ------------------------------------------------------------------ by phase

    def _waiting(self, step: int, memory: StepCondition) -> Iterator[str]:
        name, reason, message = self.name(step), memory.reason, memory.message
        if reason in ("", StepReason.WAITING_FOR_PROBE):
            until = self.until(step) if find_blocking_targets(self._ctx, step) else "and starts now"
            if step >= self._ctx.last_from:
                until = "until all other steps are over"
            yield f"Step {name} has waited{self._lasting(step)} {until}."
            if reason and message:
                yield f"Seen last: {self._seen(step, message)}."
            return
        it = "it " if message.startswith(_OF_ITSELF) else ""
        why = f": {it}{message}" if message else ""
        yield f"Step {name} has been Waiting{self._lasting(step, reason)}{why}."

    def _seen(self, step: int, message: str) -> str:
        """What a probe saw; of a single target without its name, which has been said."""
        held = find_blocking_targets(self._ctx, step)
        said = message.removeprefix("waits for ")
        return said.removeprefix(f"{self.name(held[0])}: ") if len(held) == 1 else said

    def _running(self, step: int, memory: StepCondition) -> Iterator[str]:
        text = f"Step {self.name(step)} has been {memory.phase}{self._lasting(step)}"
        about = self._ctx.observed[step].step
        if about.for_each is not None:  # which has a job an item
            yield f"{text}: {memory.message}." if memory.message else f"{text}."
            return
        text += f" as the job {memory.job or self._ctx.observed[step].key}"
        if memory.attempts > 1 and about.repeat is None:
            text += f", its attempt {memory.attempts}"
        if memory.message:
            text += f"; it {memory.message}"
        elif tasks := self.tasks(step):
            text += f": {tasks}"
        elif memory.phase == JobPhase.PENDING:
            text += f": Volcano has not started it yet; {self._describe(memory)} says more"
        yield f"{text}."

    def _completed(self, step: int, memory: StepCondition) -> Iterator[str]:
        ran = f" after {memory.running_duration}" if memory.running_duration else ""
        why = f": {memory.message}" if memory.message else ""
        yield f"Step {self.name(step)} completed{self._ago(step)}{ran}{why}."
        if memory.outputs and (said := _json(memory.outputs)):
            yield f"Its outputs: {said}."

    def _failed(self, step: int, memory: StepCondition) -> Iterator[str]:
        why = f": {memory.message}" if memory.message else ""
        said = why or _failure(memory)
        yield f"Step {self.name(step)} failed{self._ago(step, memory.reason)}{said}."

    def _skipped(self, step: int, memory: StepCondition) -> Iterator[str]:
        why = f": {memory.message}" if memory.message else ""
        yield f"Step {self.name(step)} was skipped{self._ago(step, memory.reason)}{why}."

    _TELLERS: Mapping[str, Callable[[StepExplainer, int, StepCondition], Iterator[str]]] = {
        StepPhase.WAITING: _waiting,
        StepPhase.COMPLETED: _completed,
        StepPhase.FAILED: _failed,
        StepPhase.SKIPPED: _skipped,
    }

    # --------------------------------------------------------------------- times

    def _lasting(self, step: int, reason: str = "") -> str:
        """` for 1m15s (since 12:00:00 UTC, Starting)`, as far as it is known."""
        since = self.since(step)
        how_long = f" for {format_elapsed(since, self._now)}" if since else ""
        known = [f"since {format_time(since, self._now)}"] if since else []
        known += [reason] if reason else []
        return how_long + (f" ({', '.join(known)})" if known else "")

    def _ago(self, step: int, reason: str = "") -> str:
        """` 3m ago (12:00:02 UTC, JobFailed)`, as far as it is known."""
        record = self._ctx.records.get(self.memory(step).job)
        when = self.memory(step).last_transition_time or (record.end_timestamp if record else None)
        known = ", ".join(filter(None, (format_time(when, self._now) if when else "", reason)))
        ago = f" {format_elapsed(when, self._now)} ago" if when else ""
        return ago + (f" ({known})" if known else "")

    # ------------------------------------------------------------------ remedies

    def _remedy(self, step: int, memory: StepCondition) -> str:
        try:
            text = REMEDIES[StepReason(memory.reason)]
        except ValueError:  # none, or a later version's
            return ""
        about, meta = self._ctx.observed[step].step, self._ctx.flow.metadata
        again = memory.next_attempt_time
        wait = f" in {format_duration(again - self._now)}" if again and again > self._now else ""
        return text.format(
            template=about.template_for(about.case_of(memory.decisions)),
            again=wait,
            resume=format_command("jobflow resume", meta),
            retry=f"{format_command('jobflow retry', meta)} runs it again",
            look=self._look(memory),
            describe=self._describe(memory),
        )

    def _look(self, memory: StepCondition) -> str:
        failure, namespace = memory.failure, self._ctx.flow.metadata.namespace
        if failure is None or not failure.pod:
            return f"{self._describe(memory)} says more."
        if failure.exit_code is None:
            return f"`kubectl describe pod -n {namespace} {failure.pod}` says more."
        container = f" -c {failure.container}" if failure.container else ""
        return f"`kubectl logs -n {namespace} {failure.pod}{container}` has what it printed."

    def _describe(self, memory: StepCondition) -> str:
        namespace = self._ctx.flow.metadata.namespace
        return f"`kubectl describe vcjob -n {namespace} {memory.job}`"


def _json(outputs: Mapping[str, Any]) -> str:
    """The outputs, where they are short."""
    text = msgspec.json.encode(outputs).decode()
    return text if len(text) <= _SHORT_OUTPUTS else ""


def _failure(memory: StepCondition) -> str:
    """`: pod f-b-worker-1 (task worker): exit code 3 (Error)`, where the message was dropped."""
    failure = memory.failure
    if failure is None or not failure.pod:
        return ""
    task = f" (task {failure.task})" if failure.task else ""
    code = "" if failure.exit_code is None else f"exit code {failure.exit_code}"
    how = f"{code} ({failure.reason})" if code and failure.reason else code or failure.reason
    return f": pod {failure.pod}{task}: {how or 'failed'}"
