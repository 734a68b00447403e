"""What a new flow would reuse of an ended one, and why it runs the rest.

The plans of the new flow decide, in virtual time and with jobs that never end, so that this never
disagrees with the controller. Why a run is not reused is found by building the fingerprint of its
former run again, from the spec and the status of that flow and the templates of today.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import msgspec

from jobflow.api.flow.control import ReusePolicy
from jobflow.api.flow.jobflow import JobFlow, JobTemplate
from jobflow.api.flow.status import StepPhase
from jobflow.api.resources import Object, ObjectMeta
from jobflow.api.volcano.job import Job, JobCondition, JobOutline, JobPhase, JobState, JobStatus
from jobflow.api.volcano.pod import Pod
from jobflow.core.cel.budget import NEXT_PLAN_DELAY
from jobflow.core.manifests.volume_claims import movable_claims
from jobflow.core.names import claim_names, format_place
from jobflow.core.planning.actions import CreateJob
from jobflow.core.planning.context import PlanContext
from jobflow.core.planning.flow.volume_claims import AGAIN, why_it_stays
from jobflow.core.planning.observed.steps import ObservedRun, ObservedStep, fresh
from jobflow.core.planning.observed.view import ClaimAnswer, ClaimHolder
from jobflow.core.planning.virtual_time.differences import (
    FormerFlow,
    difference,
    has_result,
    no_result,
    targets_again,
)
from jobflow.core.planning.virtual_time.flow import RunningJob, VirtualFlow
from jobflow.core.planning.virtual_time.loop import VirtualTime
from jobflow.core.reasons import StepReason
from jobflow.core.spec.concurrency import NO_GROUP, Group, GroupName
from jobflow.core.spec.items import get_items
from jobflow.core.text import join_names
from jobflow.core.work import may_run_steps


@dataclass(frozen=True, slots=True)
class ReuseRow:
    """One run of the new flow, or all that a step reuses."""

    step: str
    """`train`; in a child flow `samples/train`."""
    place: str
    """`train`, or `sweep/3` of an item; in a child flow `samples/3/train`."""
    why: str = ""
    """Why it runs; "" if it is reused."""


@dataclass(frozen=True, slots=True)
class ReusePreview:
    """What a new flow would reuse of another one."""

    source: str
    rows: Sequence[ReuseRow]
    """In the order of the steps. Steps that are not taken have none."""
    claims: Sequence[str] = ()
    """The volume claims that move to the new flow."""
    staying: Mapping[str, str] = field(default_factory=dict)
    """Why each other volume claim of the source does not move."""
    assumes_claims: bool = False
    """Whether the user may not read if the claims still exist and belong to the source."""
    refusal: str = ""
    """Why the new flow would fail at once; "" if it would not."""

    def reused(self) -> Iterator[str]:
        """Yield each step of which a run is reused, with the numbers of its runs."""
        counts: dict[str, list[ReuseRow]] = {}
        for row in self.rows:
            counts.setdefault(row.step, []).append(row)
        for step, rows in counts.items():
            taken = sum(not row.why for row in rows)
            if taken:
                is_single = len(rows) == 1 and rows[0].place == step
                yield step if is_single else f"{step} ({taken} of {len(rows)})"

    def runs(self) -> Iterator[ReuseRow]:
        """Yield the runs that are not reused."""
        return (row for row in self.rows if row.why)

    def about_claims(self) -> Iterator[str]:
        """Yield a sentence about the volume claims that move, and one about each other."""
        claims = "claim" if len(self.claims) == 1 else "claims"
        moves = "moves" if len(self.claims) == 1 else "move"
        if self.claims:
            yield (
                f"The volume {claims} {join_names(self.claims)} of {self.source} {moves} to the "
                f"new flow: {self.source} is then spent, and can be neither retried nor reused."
            )
        if self.claims and self.assumes_claims:
            yield (
                "This assumes that they exist and have no other owner: you have no right to list "
                "PersistentVolumeClaims here."
            )
        for claim, why in self.staying.items():
            yield f"The volume claim {claim} of {self.source} {why}."

    def lines(self) -> Iterator[str]:
        """Yield the lines of a terminal."""
        reused = ", ".join(self.reused())
        yield f"Reused from {self.source}: {reused or 'nothing'}"
        runs = [*self.runs()]
        yield "Runs:" if runs else "Nothing runs."
        yield from (f"  {row.place}: {row.why}" for row in runs)
        yield from self.about_claims()


@dataclass(frozen=True, slots=True)
class Templates:
    """The JobTemplates of a namespace."""

    stored: Sequence[JobTemplate]
    """Those that are stored, with which the former runs are built again."""
    new: Sequence[JobTemplate]
    """Those of the new flow."""


def preview(
    flow: JobFlow,
    source: JobFlow,
    sources: Mapping[str, JobFlow],
    templates: Templates,
    earlier: Sequence[JobFlow],
    now: datetime,
    claims: Sequence[Object] | None = None,
) -> ReusePreview:
    """Return what a new flow would reuse of `source`, which its spec names. `sources`: the child
    flows of that, by name; `earlier`: the flows that it reuses itself, directly or through
    others; `claims`: the PersistentVolumeClaims of flows; None: all are as they were made."""
    spec = msgspec.structs.replace(flow.spec, suspend=None)
    time = VirtualTime(now, _Jobs(), _Alone(), lambda step: timedelta())
    new = msgspec.structs.replace(flow, spec=spec)
    time.add(new, templates.new, {**sources, source.metadata.name: source})
    [outermost] = time.all_flows
    if claims is not None:
        names = movable_claims(outermost.flow, source).values()
        outermost.claims |= _held(names, source, claims, now)
    time.run(NEXT_PLAN_DELAY)
    state, moving = outermost.flow.status.state, movable_claims(outermost.flow, source)
    moving = {claim: name for claim, name in moving.items() if not outermost.claims.get(name)}
    staying = {}
    for claim, name in claim_names(source).items():
        if name not in (source.status.volume_claims or ()) or claim in moving:
            continue
        if holder := outermost.claims.get(name):
            staying[claim] = f"{why_it_stays(holder)}: {AGAIN}"
        elif claim in (flow.spec.volume_claims or ()):
            staying[claim] = f"stays there, because its spec differs: {AGAIN}"
        else:
            staying[claim] = "stays there, because the new flow has none of this name"
    refusal = state.message if outermost.flow.final and not outermost.flow.status.reuse else ""
    olds = {
        name: FormerFlow(each, templates.stored, now) for name, each in outermost.sources.items()
    }
    chain = [FormerFlow(each, templates.stored, now) for each in earlier]
    flows = {each.flow.metadata.name: each for each in time.all_flows}
    explainer = _Explainer(flows, olds, chain, time.now)
    rows = [*explainer.rows(outermost, "")]
    return ReusePreview(source.metadata.name, rows, [*moving], staying, refusal=refusal)


def _held(
    names: Iterable[str], source: JobFlow, claims: Sequence[Object], now: datetime
) -> dict[str, ClaimAnswer]:
    """Return what the controller would find in place of each claim that cannot move."""
    metadata = {each.metadata.name: each.metadata for each in claims}
    found: dict[str, ClaimAnswer] = {}
    for name in names:
        meta = metadata.get(name)
        is_there = meta is not None and meta.deletion_timestamp is None
        owner = None if meta is None else meta.controller
        if not is_there or owner is None or owner.uid != source.metadata.uid:
            found[name] = ClaimHolder(owner, not is_there, now)
    return found


@dataclass(frozen=True, slots=True)
class _Explainer:
    flows: Mapping[str, VirtualFlow]
    """The new flow and its child flows, by name."""
    olds: Mapping[str, FormerFlow]
    """The flows that are reused, by name."""
    chain: Sequence[FormerFlow]
    now: datetime

    def rows(self, flow: VirtualFlow, steps: str) -> Iterator[ReuseRow]:
        """Yield a row for each run of a flow. `steps`: the place of its steps without indexes."""
        ctx = flow.context(self.now)
        reuse = ctx.flow.status.reuse
        old = None if reuse is None else self.olds.get(reuse.flow)
        for position, observed in enumerate(ctx.observed):
            step, stored = observed.step, observed.stored
            if stored.phase == StepPhase.SKIPPED:
                continue
            taken = frozenset(
                each.stored.job for each in observed.each if each.stored.reason == StepReason.REUSED
            )
            for run in _runs_of(observed, ctx):
                if run.stored.reason == StepReason.NOT_TAKEN:
                    continue
                child = self.flows.get(run.job_name) if may_run_steps(step) else None
                if child is not None and child.flow.spec.reuse is not None:
                    yield from self.rows(child, f"{steps}{step.name}/")
                    continue
                place = flow.place + format_place(step.name, run.index)
                if step.repeat is not None and step.for_each is None:
                    place = flow.place + step.name
                is_taken = run.stored.reason == StepReason.REUSED
                why = "" if is_taken else self._why(run, position, ctx, old, taken)
                yield ReuseRow(f"{steps}{step.name}", place, why)

    def _why(
        self,
        run: ObservedRun,
        position: int,
        ctx: PlanContext,
        old: FormerFlow | None,
        taken: frozenset[str],
    ) -> str:
        step, stored = run.step, run.stored
        if position >= ctx.layout.last_from:
            return "finally runs in every flow"
        if run.work.asks:
            return "an approval is asked for again"
        if run.work.at_once:
            return "a step without a job is decided in every flow"
        if step.daemon:
            return "a daemon starts in every flow"
        if step.reuse_policy == ReusePolicy.NEVER:
            return "its reusePolicy is Never"
        if again := targets_again(position, run.index, ctx, old):
            return again
        if stored.phase == StepPhase.FAILED:
            return f"it would fail: {stored.message}"
        if old is None:
            return "no flow is reused here"
        former = old.run_for(run, taken)
        if former is None or not has_result(former):
            why = no_result(run, former, ctx, old)
            has_it = (
                each.name
                for each in self.chain
                if (before := each.run_for(run, frozenset())) is not None and has_result(before)
            )
            name = next(has_it, None)
            return why if name is None else f"{why}; {name} has it: reuse {name} instead"
        return difference(run, former, ctx, old, taken)


def _runs_of(observed: ObservedStep, ctx: PlanContext) -> Iterator[ObservedRun]:
    """Yield the runs of a step, also those that have not begun; of a repeat its first."""
    step = observed.step
    items = get_items(step, observed.decided) if step.for_each is not None else None
    known = {run.index: run for run in observed.runs}
    if step.for_each is None and step.repeat is not None:
        yield known.get(0) or fresh(observed, ctx.flow.metadata.name, 0)
    elif items is None:
        yield observed
    else:
        for index in range(len(items)):
            yield known.get(index) or fresh(observed, ctx.flow.metadata.name, index)


class _Jobs:
    """Jobs that run and never end."""

    def create(self, flow: VirtualFlow, action: CreateJob, now: datetime) -> RunningJob:
        return _RunningJob(action, now)

    def abort(self, flow: VirtualFlow, job: RunningJob) -> None:
        pass

    def act(self, time: VirtualTime) -> bool:
        return False


class _RunningJob:
    ended = False

    def __init__(self, action: CreateJob, now: datetime) -> None:
        manifest = action.manifest
        self.metadata = msgspec.structs.replace(
            msgspec.convert(manifest["metadata"], ObjectMeta),
            uid=f"job-{action.name}",
            creation_timestamp=now,
        )
        running = JobPhase.RUNNING
        self.job = Job(
            metadata=self.metadata,
            spec=msgspec.convert(manifest["spec"], JobOutline),
            status=JobStatus(
                state=JobState(phase=running), conditions=[JobCondition(status=running)]
            ),
        )

    def pods(self) -> tuple[Pod, ...]:
        return ()

    def count_running(self, task: str) -> int:
        outline = self.job.spec.tasks or ()
        return next((each.replicas or 1 for each in outline if each.name == task), 1)

    def delete(self, now: datetime) -> None:
        pass


class _Alone:
    """No flow waits for another one."""

    def of(self, flow: JobFlow, group: GroupName) -> Group:
        return NO_GROUP

    def update(self, old: JobFlow | None, new: JobFlow | None) -> Iterator[tuple[str, str]]:
        return iter(())
