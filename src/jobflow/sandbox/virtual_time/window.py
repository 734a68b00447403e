"""Plans of a small part of a flow, because a plan of 1,000 steps takes 7 ms of CPU.

After a step has completed or was skipped, only the steps that depend on it can do something new, if
nothing but dependencies and their own conditions hold steps back. So the planner gets a flow of
these steps, their targets, and the steps that their expressions read. A failure, and a flow that
uses anything else, need plans of the whole flow; so does the end of the flow. A law compares both
with the sandbox.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from datetime import datetime

import msgspec

from jobflow.api.flow.dependencies import Condition, DependsOn, Strategy
from jobflow.api.flow.jobflow import JobFlow, JobFlowSpec
from jobflow.api.flow.status import ENDED_STEP_PHASES, JobFlowStatus, StepCondition, StepPhase
from jobflow.api.flow.step import Step
from jobflow.core.names import format_job_name
from jobflow.core.planning.actions import CreateJob, Plan
from jobflow.core.planning.observed.view import View
from jobflow.core.planning.plan import plan
from jobflow.core.spec.expressions import find_needed_outputs, reads_of
from jobflow.core.work import may_run_steps

_REST = Step(name="-", depends_on=DependsOn(targets=["-"]))
"""A step that never starts, so that the part of the flow does not end. No step has such a name."""
_NONE = StepCondition()


def can_be_planned_in_parts(flow: JobFlow) -> bool:
    """Return whether, until a step fails, only the ends of its targets and its own conditions hold
    a step back, and each step has one vcjob at most. `finally` may contain anything."""
    spec = msgspec.structs.replace(
        flow.spec,
        flows=None,
        finally_=None,
        params=None,
        failure_policy=None,
        job_defaults=None,
        job_retain_policy=None,
        ttl_seconds_after_finished=None,
        ttl_seconds_after_succeeded=None,
        ttl_seconds_after_failed=None,
    )
    return spec == JobFlowSpec() and all(map(_only_depends, flow.steps))


def _only_depends(step: Step) -> bool:
    others = msgspec.structs.replace(
        step,
        template=None,
        depends_on=None,
        retry=None,
        continue_on_failure=None,
        when=None,
        switch=None,
        patch=None,
    )
    depends_on = step.depends_on or DependsOn()
    return (
        others == Step(name=step.name)
        and not may_run_steps(step)
        and depends_on.strategy in (None, Strategy.ALL)
        and depends_on.condition in (None, Condition.COMPLETED)
        and msgspec.structs.replace(depends_on, targets=None, strategy=None, condition=None)
        == DependsOn()
    )


class Window:
    """The steps of a flow that only ends without failure have changed since a plan of the whole
    flow."""

    def __init__(self, flow: JobFlow) -> None:
        name, status = flow.metadata.name, flow.status
        self._flow = flow
        self._steps = {step.name: step for step in flow.steps}
        self._positions = {step: position for position, step in enumerate(self._steps)}
        self._keys = {step: format_job_name(name, step) for step in self._steps}
        self._conditions = dict(status.conditions or {})
        self._records = {record.name: record for record in status.job_status_list or ()}
        self._open = {step for step in self._steps if not self._has_ended(step)}
        self._needed = find_needed_outputs(flow.spec)
        self._dependants: dict[str, list[str]] = {step: [] for step in self._steps}
        for step in flow.steps:
            for target in step.targets:
                self._dependants[target].append(step.name)
        self._ready = self._met(self._steps)
        """Steps that had no vcjob before the last plan although their targets have ended."""

    @property
    def all_ended(self) -> bool:
        """Whether every step has ended."""
        return not self._open

    @property
    def flow(self) -> JobFlow:
        """The whole flow with all that is known."""
        status = msgspec.structs.replace(
            self._flow.status,
            conditions=self._conditions,
            job_status_list=[*self._records.values()],
        )
        return msgspec.structs.replace(self._flow, status=status)

    def plan(
        self, view: View, completed: Iterable[str], jobs: Container[str], now: datetime
    ) -> Plan | None:
        """Return the plan of the steps that depend on these steps, whose vcjobs have just
        completed; None, and nothing is changed, if a step fails, which concerns the whole flow.
        `view` has no other vcjobs; `jobs` are the names of all that exist."""
        before = dict(self._conditions), dict(self._records), set(self._open), self._ready
        ended = [*dict.fromkeys(completed)]
        ready = [step for step in self._ready if self._keys[step] not in jobs]
        plans: list[Plan] = []
        self._ready = []
        while ended or not plans:
            dependants = (step for name in ended for step in self._dependants[name])
            ready = [*dict.fromkeys((*ready, *self._met(dependants, ended)))]
            plans.append(self._plan_part(ended, ready, view, now))
            ended, ready = [step for step in ready if step not in self._open], []
            if any(self._condition(step).phase == StepPhase.FAILED for step in ended):
                self._conditions, self._records, self._open, self._ready = before
                return None
        return self._merged(plans)

    def _plan_part(
        self, ended: Iterable[str], ready: Sequence[str], view: View, now: datetime
    ) -> Plan:
        """Plan these steps with those that they see, and remember what they do."""
        steps = [self._steps[name] for name in ready]
        targets = (target for step in steps for target in step.targets)
        read = (each.step for step in steps for each in reads_of(step))
        part = sorted({*ended, *ready, *targets, *read}, key=self._positions.__getitem__)
        made = plan(self._part(part, view), view, now=now)
        self._merge(part, made.status)
        self._ready += [step for step in ready if step in self._open]
        return made

    def _merged(self, plans: Sequence[Plan]) -> Plan:
        """Return one plan, whose creates are in the order of the spec. Nobody reads its status."""
        last = len(self._positions)
        actions = sorted(
            (action for each in plans for action in each.actions),
            key=lambda each: self._positions[each.step] if isinstance(each, CreateJob) else last,
        )
        times = (each.requeue_after for each in plans if each.requeue_after is not None)
        return Plan(
            tuple(actions),
            plans[-1].status,
            urgent=any(each.urgent for each in plans),
            requeue_after=min(times, default=None),
        )

    def _met(self, steps: Iterable[str], ended: Container[str] = ()) -> list[str]:
        """Return the steps that have not ended, but whose targets have."""
        return [
            step
            for step in steps
            if step in self._open
            and all(each in ended or each not in self._open for each in self._steps[step].targets)
        ]

    def _part(self, names: Sequence[str], view: View) -> JobFlow:
        """Return the flow with these steps only. `finally`, which starts after all of them, and the
        targets of a step that has begun or ended are left out. The step that never starts reads
        the outputs that other steps need."""
        steps, conditions = [], {}
        for name in names:
            step, key = self._steps[name], self._keys[name]
            conditions[key] = self._conditions[key]
            if self._conditions[key].attempts or name not in self._open:
                step = msgspec.structs.replace(step, depends_on=None)
            steps.append(step)
        reads = ", ".join(f'steps["{name}"].outputs' for name in names if name in self._needed)
        rest = msgspec.structs.replace(_REST, when=f"[{reads}] == []" if reads else None)
        records = [self._records[name] for name in view.jobs if name in self._records]
        spec = msgspec.structs.replace(self._flow.spec, flows=[*steps, rest], finally_=None)
        status = msgspec.structs.replace(
            self._flow.status, conditions=conditions, job_status_list=records
        )
        return msgspec.structs.replace(self._flow, spec=spec, status=status)

    def _merge(self, names: Iterable[str], status: JobFlowStatus) -> None:
        found: Mapping[str, StepCondition] = status.conditions or {}
        for name in names:
            self._conditions[self._keys[name]] = found[self._keys[name]]
            if self._has_ended(name):
                self._open.discard(name)
        for record in status.job_status_list or ():
            self._records[record.name] = record
        if status.state.phase != self._flow.status.state.phase:
            whole = msgspec.structs.replace(self._flow.status, state=status.state)
            self._flow = msgspec.structs.replace(self._flow, status=whole)

    def _has_ended(self, step: str) -> bool:
        return self._condition(step).phase in ENDED_STEP_PHASES

    def _condition(self, step: str) -> StepCondition:
        return self._conditions.get(self._keys[step], _NONE)
