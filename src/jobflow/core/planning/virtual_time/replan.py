"""Plans of a flow one after another, each about the steps alone that a change concerns.

A plan looks at every step of its flow, and in virtual time a flow of 1,000 steps needs thousands of
plans. Between two of them, only these steps can do something new: those whose vcjobs have changed,
whose own time has come, or whose condition the plan before has changed, and those that depend on
them. A change of the flow as a whole, such as a failure or its end, needs a plan of all steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

import msgspec

from jobflow.api.flow.jobflow import JobFlow, JobFlowSpec
from jobflow.api.flow.status import ENDED_STEP_PHASES, JobRecord
from jobflow.core.cel.budget import PlanBudget
from jobflow.core.planning.actions import Plan
from jobflow.core.planning.context import PlanContext, with_times
from jobflow.core.planning.decision import StepDecision, collect
from jobflow.core.planning.flow.cleanup import retention
from jobflow.core.planning.flow.parallelism import in_room
from jobflow.core.planning.observed.identity import assign
from jobflow.core.planning.observed.steps import gather
from jobflow.core.planning.observed.view import View
from jobflow.core.planning.pending.step import PendingSteps
from jobflow.core.planning.plan import time_until
from jobflow.core.planning.progress import Facts, Progress
from jobflow.core.planning.started.steps import begun_steps
from jobflow.core.planning.status.job_records import new_records
from jobflow.core.spec.compiled import compile_flow
from jobflow.core.timestamps import truncate_to_second


def can_replan(flow: JobFlow) -> bool:
    """Whether, until a step fails, only its own jobs and its targets let a step do something new.
    `finally` may contain anything, because it begins by plans of the whole flow."""
    # all other fields of a spec let something else than its own jobs move a step
    spec = msgspec.structs.replace(
        flow.spec,
        flows=None,
        finally_=None,
        targets=None,
        params=None,
        outputs=None,
        failure_policy=None,
        job_defaults=None,
        job_retain_policy=None,
        ttl_seconds_after_finished=None,
        ttl_seconds_after_succeeded=None,
        ttl_seconds_after_failed=None,
    )
    layout = compile_flow(flow)
    return spec == JobFlowSpec() and not (
        layout.has_children
        or layout.has_daemons
        or layout.ends_in_status
        or layout.sharing
        or layout.matching
        or layout.never_start
        or any(need.probe for need in layout.needs)
    )


class Replanner:
    """Plans the changes of a Running flow (`can_replan`) until all but `finally` has ended."""

    def __init__(self, flow: JobFlow, view: View, now: datetime) -> None:
        """`flow` has the status of a plan of the whole flow, and `view` is of that plan. The status
        of every plan is stored before the next one."""
        self._given = flow
        self._ctx = ctx = PlanContext.of(flow, view, now)
        self.records: dict[str, JobRecord] = dict(ctx.records)
        self._decisions = [StepDecision(each.stored) for each in ctx.observed]
        self._open = {
            position
            for position, each in enumerate(ctx.observed[: ctx.layout.last_from])
            if each.stored.phase not in ENDED_STEP_PHASES
        }
        self._jobs: dict[int, dict[str, None]] = {
            position: dict.fromkeys(job.metadata.name for job in each.jobs)
            for position, each in enumerate(ctx.observed)
            if each.jobs
        }
        """Names of vcjobs, by the position of their step."""
        self._changed: set[int] = set(self._open)
        """Steps that the next plan decides again."""
        self._due: dict[int, datetime] = {}
        """When steps are decided again although nothing happened."""

    @property
    def all_ended(self) -> bool:
        """Whether every step before `finally` has ended."""
        return not self._open

    @property
    def flow(self) -> JobFlow:
        """The flow with all that is known."""
        status = self._ctx.flow.status
        status = msgspec.structs.replace(status, job_status_list=[*self.records.values()])
        return msgspec.structs.replace(self._given, status=status)

    def plan(self, view: View, changed: Mapping[str, str], now: datetime) -> Plan | None:
        """Return what to do at `now`. `changed`: the step of each vcjob that was created or has
        changed since the last plan, by the vcjob's name. None if the whole flow must be planned,
        from now on every time."""
        for name, step in changed.items():
            self._jobs.setdefault(self._ctx.layout.graph.index[step], {})[name] = None
        due = (position for position, at in self._due.items() if at <= now)
        changed_steps = {self._ctx.layout.graph.index[step] for step in changed.values()}
        ranks = self._ctx.layout.ranks
        scope = sorted({*changed_steps, *self._changed, *due}, key=ranks.__getitem__)
        ctx = self._context(view, scope, now)
        known = begun_steps(ctx, scope)
        steps = PendingSteps(ctx, known)
        waiting = [position for position in scope if position not in known]
        decided = {*scope, *steps.run_again(waiting, dependants_of=scope)}
        # a failure concerns every step
        if steps.failing or steps.stopping.is_active:
            return None
        decisions = list(self._decisions)
        for position in decided:
            decisions[position] = steps.decisions.get(position, decisions[position])
        made = in_room(ctx, decisions, decided)
        if made.faults:
            return None
        decisions = with_times(ctx, made.decisions, decided)
        conditions = dict(ctx.flow.status.conditions or {})
        kept = retention(ctx.flow, ctx.view, ctx.now)
        self.records |= new_records(ctx, decisions, decided, {})
        self._changed = set()
        for position in decided:
            decision, stored = decisions[position], ctx.observed[position].stored
            condition = decision.condition
            self._decisions[position] = StepDecision(condition)
            conditions[ctx.layout.keys[position]] = ctx.progress.standing[position] = condition
            ctx.progress.ends[position] = ctx.end_of(ctx.layout.steps[position], condition)
            if condition is not stored or decision.actions or decision.reads:
                self._changed.add(position)
            if condition.phase in ENDED_STEP_PHASES:
                self._open.discard(position)
            self._due.pop(position, None)
            if decision.wake_at is not None:
                self._due[position] = decision.wake_at
        status = msgspec.structs.replace(ctx.flow.status, conditions=conditions)
        self._ctx = replace(ctx, flow=msgspec.structs.replace(ctx.flow, status=status))
        news = [decisions[position] for position in sorted(decided)]
        reads = dict.fromkeys(collect(news, "reads"))
        return Plan(
            actions=(*collect(news, "actions"), *reads, *kept.deletes),
            status=status,
            urgent=kept.urgent or any(decision.urgent for decision in news),
            requeue_after=time_until((kept.wake_at, *self._due.values()), ctx.now),
        )

    def _context(self, view: View, scope: Sequence[int], now: datetime) -> PlanContext:
        """Return the context of a plan, in which these steps are observed anew."""
        last, second = self._ctx, truncate_to_second(now)
        names = [name for position in scope for name in self._jobs.get(position, ())]
        view = replace(view, jobs={name: view.jobs[name] for name in names if name in view.jobs})
        observed = list(last.observed)
        for position in self._open:  # a step that waits for something else now waits since now
            observed[position].now = second
        fresh = gather(last.flow, last.layout, self.records, second, scope)
        for position, each in zip(scope, fresh, strict=True):
            observed[position] = each
        # only the vcjobs of these steps are in this View
        assign(observed, last.layout, view, last.flow)
        standing, ends = list(last.progress.standing), list(last.progress.ends)
        # the status knows every vcjob, so that none of them proves the end of a target
        progress = Progress(standing, ends, PlanBudget(), recorded_ends={})
        return replace(
            last,
            view=view,
            now=now,
            second=second,
            records=self.records,
            observed=observed,
            facts=Facts(last.facts.lifecycle),
            progress=progress,
        )
