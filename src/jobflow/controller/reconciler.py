"""From events to reconciled flows: which flow to plan, and when to plan it again. The result of a
plan is handled in one place (`_settle`)."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import structlog

from jobflow.api.flow.cronjobflow import CronJobFlow
from jobflow.api.flow.jobflow import JobFlow, JobTemplate
from jobflow.api.volcano.command import Command
from jobflow.api.volcano.job import Job, JobPhase
from jobflow.api.volcano.pod import Pod
from jobflow.controller.apply.api_answers import Answers, Memory, timeless
from jobflow.controller.apply.apply import Applier
from jobflow.controller.apply.events import Recorder
from jobflow.controller.apply.requests import STATUS, Applied, request_of
from jobflow.controller.foreign_status import ForeignStatuses
from jobflow.controller.hooks import Hooks, Judge, NotJudgedYet, ReconcileResult, judge_here
from jobflow.controller.places import Places
from jobflow.controller.probes.pod_index import PodIndex
from jobflow.controller.queue import WorkQueue
from jobflow.controller.wants import Wants
from jobflow.core.planning.actions import Plan
from jobflow.core.planning.lifecycle import untouched
from jobflow.core.planning.observed.identity import find_edits
from jobflow.core.planning.observed.view import View
from jobflow.core.planning.plan import is_unjudged
from jobflow.core.planning.plan import plan as plan_flow
from jobflow.core.planning.work.end import OBSTACLE_SHOWN
from jobflow.core.spec.compiled import compile_flow
from jobflow.kube.cache import Key, full_name, key_of
from jobflow.kube.write_order import WriteOrder, starting
from jobflow.store import Listener, Store, flow_of, reused_flow

log = structlog.get_logger(__name__)

STATUS_SECONDS = 1.0
"""Minimum time between two status writes of a flow that nothing waits for."""
SECONDS_A_STEP = 0.001
"""The part of that time for each step, because everybody who follows the flow reads all steps."""
LONG_PLAN = 0.005
"""Seconds of a plan after which the flow rests: the events of that time share the next plan."""
RESTS = 4
"""Length of the rest in plans, so that a flow of thousands of steps, whose jobs change many times a
second, is planned for at most a fifth of the time."""
UNFOLLOWED_SECONDS = 1.0
"""Pause while the copies cannot be followed: a plan from them could start what must not start yet,
if the API server comes back with an earlier state."""
PROGRESS_SECONDS = 30.0
"""Time after which such a write no longer waits for room among the writes under way."""
SETTLE_SECONDS = 0.1
"""Delay of such a write, and of a plan that could only change the status, so that they include
changes that follow at once (a job created, then Pending, then Running)."""


@dataclass(slots=True)
class ReconcileOutcome:
    """The result of a reconcile, for `_settle`."""

    again: bool = False
    after: float | None = None
    """Seconds until the next reconcile if no event comes."""
    error: str = ""
    """A temporary error, "" for none."""
    retry_after: float = 0.0
    shown_after: float | None = None
    """Seconds until the status says which creates fail, also in the backoff."""
    held: bool = False
    """Whether a request that failed earlier waits for the end of the backoff."""


@dataclass(eq=False)
class Reconciler(Listener):
    """Reconciles the flows of a store. Many workers run `work` at once."""

    store: Store
    applier: Applier
    memory: Memory
    recorder: Recorder
    queue: WorkQueue[Key]
    wants: Wants
    order: WriteOrder
    status_seconds: float = STATUS_SECONDS
    hooks: Hooks = field(default_factory=Hooks)
    judge: Judge = judge_here
    gives_up: bool = False
    """Whether an exception of a reconcile is raised, in place of another try later."""
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    clock: Callable[[], float] = time.monotonic
    _awaiting_ends: set[Key] = field(default_factory=set)
    """Flows that may do something only after the end of a vcjob."""

    def __post_init__(self) -> None:
        self._pod_index = PodIndex(self.store)
        self._places = Places(self.store)
        reads = self.applier.reads
        self.foreign = ForeignStatuses(self.store, self.memory, reads, self.hooks, self.clock)

    # ------------------------------------------------------------------ events to keys

    def flow_changed(self, old: JobFlow | None, new: JobFlow | None) -> None:
        flow = new or old
        assert flow is not None
        self.foreign.flow_changed(old, new)
        self.group_changed(self._places.flow_changed(flow))
        if new is None:
            self._pod_index.forget(flow)
        # the status that this process wrote is no news, unless the plan continues with it
        if new is not None and self.memory.has_written(new):
            self.queue.add_soon(key_of(flow), SETTLE_SECONDS)
        else:
            self.queue.add(key_of(flow))
        # its ttl counts again
        if (source := reused_flow(old)) is not None and reused_flow(new) is None:
            self.queue.add(source)
        if old is None or new is None or _suspension(old) != _suspension(new):
            for child in self.store.children_of(flow.metadata.uid):
                self.queue.add(child)
        elif new.status.handed_down_count != old.status.handed_down_count:
            for entry in new.status.handed_down or ():
                self.queue.add((flow.metadata.namespace, entry.flow))

    def cron_changed(self, old: CronJobFlow | None, new: CronJobFlow | None) -> None:
        """Queue the ended flows of a schedule whose ttl may count again."""
        cron = new or old
        assert cron is not None
        if old is None or new is None or old.status.waits_for != new.status.waits_for:
            for flow in self.store.flows_of(cron):
                if flow.final:
                    self.queue.add(key_of(flow))

    def group_changed(self, flows: Sequence[Key]) -> None:
        for flow in flows:
            self.queue.add(flow)

    def template_changed(self, old: JobTemplate | None, new: JobTemplate | None) -> None:
        """Queue the unfinished flows that use a template whose spec has changed."""
        template = new or old
        assert template is not None
        if old is not None and new is not None and old.spec == new.spec:
            return
        for flow in self.store.flows_using(*key_of(template)):
            if not flow.final:
                self.memory.lift(key_of(flow))
                self.queue.add(key_of(flow))

    def job_changed(self, old: Job | None, new: Job | None) -> None:
        """Queue the flow of a job, and the flows that wait for the name of this job."""
        states = [job for job in (old, new) if job is not None]
        is_ending = any(
            job.phase not in (JobPhase.PENDING, JobPhase.RUNNING)
            or job.metadata.deletion_timestamp is not None
            for job in states
        )
        for job in states:
            if (owner := self.store.owners.of(job)) is not None:
                key = (job.metadata.namespace, owner.name)
                if new is not None and not is_ending and key in self._awaiting_ends:
                    self.queue.add_soon(key, SETTLE_SECONDS)  # only the status changes
                else:
                    self.queue.add(key)
        if old is not None and new is not None and old.metadata.uid == new.metadata.uid:
            owner = self.store.owners.of(new)
            flow = self.store.flows.get(new.metadata.namespace, owner.name) if owner else None
            if flow is not None and not flow.final:
                if (event := find_edits(old.metadata, new.metadata)) is not None:
                    self.recorder.record(flow, event)
                    log.warning("job edited", flow=full_name(flow), message=event.message)
        for key in self.memory.released(key_of(states[0])):
            self.queue.add(key)

    def pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if (flow := self._pod_index.flow_of(old, new)) is not None:
            self.queue.add(flow)
        elif (flow := self._pod_index.flow_of_starting(old, new)) is not None:
            self.queue.add_soon(flow, OBSTACLE_SHOWN.total_seconds())  # if it does not run by then

    def command_changed(self, command: Command) -> None:
        if (flow := flow_of(command)) is not None:
            self.queue.add(flow)

    def all_flows(self) -> None:
        """Queue every flow: earlier events are not known to this process."""
        for flow in self.store.flows:
            self.queue.add(key_of(flow))

    # ------------------------------------------------------------------ work

    async def work(self) -> None:
        """Reconcile one flow after another until the queue is closed."""
        while (key := await self.queue.get()) is not None:
            started = self.clock()
            try:
                outcome = await self._reconcile_safely(key)
                result = self._settle(key, outcome)
            finally:
                self.queue.done(key)
            self.hooks.reconciled(self.clock() - started, result)

    async def _reconcile_safely(self, key: Key) -> ReconcileOutcome:
        """Reconcile later if the copies cannot be followed now."""
        if not self.store.is_followed:
            return ReconcileOutcome(after=UNFOLLOWED_SECONDS, held=True)
        try:
            return await self.reconcile(key)
        except Exception as error:  # a fault in our code concerns this flow only
            log.exception("reconcile failed", flow="/".join(key))
            text = f"{type(error).__name__}: {error}"
            if self.gives_up:
                what = f"JobFlow {key[1]} cannot be planned because of an error in JobFlow itself"
                raise RuntimeError(f"{what}: {text}") from error
            return ReconcileOutcome(error=text)

    def _settle(self, key: Key, outcome: ReconcileOutcome) -> ReconcileResult:
        """Decide when the flow is reconciled again. No other place handles an outcome."""
        # a requeue waits for the end of the backoff; a plan after an event comes before
        if outcome.error:
            wait = self.queue.retry(key, at_least=outcome.retry_after)
            log.warning("retrying", flow="/".join(key), error=outcome.error, seconds=round(wait, 3))
        elif not outcome.held and not outcome.again:  # nothing was left out
            self.queue.forget(key)
        if outcome.after is not None:
            self.queue.add_after(key, outcome.after)
        if outcome.shown_after is not None:
            self.queue.add_soon(key, outcome.shown_after)
        if outcome.error:
            return ReconcileResult.RETRIED
        if outcome.again:
            self.queue.add(key)
            return ReconcileResult.REQUEUED
        return ReconcileResult.DONE

    async def reconcile(self, key: Key) -> ReconcileOutcome:
        """Plan one flow and apply the plan."""
        stored = self.store.flows.get(*key)
        if stored is None:
            self.memory.forget(key)
            self.wants.forget(key)
            self._awaiting_ends.discard(key)
            return ReconcileOutcome()
        if (event := await self.foreign.report(stored)) is not None:
            self.recorder.record(stored, event)
            return ReconcileOutcome(again=True)  # from its own status
        answers = self.memory.of(stored)
        if not self.queue.backoff(key):  # what failed before the backoff may be sent again
            answers.failed.clear()
        # judged once before its first plan, because it may have been stored without review
        flow = self.foreign.own(stored)
        generation = flow.metadata.generation
        is_judged = answers.verdict is not None and answers.verdict[0] == generation
        if not is_judged and is_unjudged(flow, self.store.jobs_of(flow.metadata.uid)):
            try:
                answers.verdict = (generation, await self.judge(flow))
            except NotJudgedYet as error:
                return ReconcileOutcome(error=str(error))
            if self.store.flows.get(*key) is not stored:
                return ReconcileOutcome(again=True)
        return await self._plan_and_apply(stored, answers)

    async def _plan_and_apply(self, stored: JobFlow, answers: Answers) -> ReconcileOutcome:
        key, flow = key_of(stored), self.foreign.own(stored)
        began = self.clock()
        plan = plan_flow(flow, self._view(flow, answers), now=self.now())
        if (took := self.clock() - began) > LONG_PLAN:
            self.queue.rest(key, took * RESTS)  # events of that time share the next plan
        if plan.only_ends_matter:
            self._awaiting_ends.add(key)
        else:
            self._awaiting_ends.discard(key)
        self._places.note(flow, plan.status)  # before anything is awaited
        self.wants.want(key, flow.metadata.uid, plan.wants)
        status_wait, held = self._status_wait(flow, plan, answers), False
        # in backoff no failed request is repeated, but the others are sent, so that the flow can
        # still be cancelled
        if answers.failed:
            sent = tuple(each for each in plan.actions if request_of(each) not in answers.failed)
            held = len(sent) < len(plan.actions)
            plan = replace(plan, actions=sent)
            if STATUS in answers.failed and status_wait is not None:
                status_wait, held = None, True
        writes, applied = status_wait == 0.0, Applied()
        if plan.actions or writes:
            if writes:
                self.foreign.writes(key)
            with starting(is_unstarted(flow)):
                applied = await self.applier.apply(flow, plan, write_status=writes, stored=stored)
        if applied.status_written:
            self.hooks.recorded(flow.status, plan.status)
            for event in plan.events:
                self.recorder.record(flow, event)
            answers.written_at, answers.changed_at = self.clock(), None
            if plan.continues:
                self.queue.add(key)
        answers.failed |= applied.failed
        if flow.final and not answers.failed:
            self.memory.forget(key)  # an ended flow asks for nothing that was answered before
        waits = [status_wait] if status_wait else []
        if plan.requeue_after is not None:
            waits.append(plan.requeue_after.total_seconds())
        now = self.now()
        shown = ((error.shown_at - now).total_seconds() for error in answers.create_errors)
        return ReconcileOutcome(
            again=applied.again,
            after=min(waits, default=None),
            error="; ".join(dict.fromkeys(applied.errors)),
            retry_after=applied.retry_after,
            # until the next step says that its create fails; None: all do
            shown_after=min((seconds for seconds in shown if seconds > 0), default=None),
            held=held,
        )

    def _view(self, flow: JobFlow, answers: Answers) -> View:
        uid = flow.metadata.uid
        jobs, deleted = self.store.jobs_of(uid), self.store.deleted_of(uid)
        jobs = self.foreign.own_jobs(jobs, flow.metadata.namespace)
        parent = self.store.parent_of(flow)
        answers.outdate(jobs)  # before the View takes them
        uids = [job.metadata.uid for job in jobs.values()]
        source, source_children = None, {}
        if (reuse := flow.status.reuse or flow.spec.reuse) is not None:
            source = self.store.flows.get(flow.metadata.namespace, reuse.flow)
        if source is not None and compile_flow(flow).has_children:
            keys = self.store.children_of(source.metadata.uid)
            found = (self.store.flows.get(*key) for key in keys)
            source_children = {f.metadata.name: f.metadata for f in found if f is not None}
        return View(
            claim_takers=self._claim_takers(flow),
            templates=self.store.templates_in(flow.metadata.namespace),
            jobs=jobs,
            source=source,
            source_children=source_children,
            reused_by=self.store.reused_by(flow),
            is_awaited=self.store.is_awaited(flow),
            parent=None if parent is None else self.foreign.own(parent),
            deleted=deleted | (answers.missing - jobs.keys()),
            holders=dict(answers.holders),
            refusals=dict(answers.refusals),
            create_errors=dict(answers.errors),
            violations=answers.verdict[1] if answers.verdict is not None else (),
            claims=dict(answers.claims),
            held=answers.held,
            groups=self._places.of(flow),
            cancels=dict(answers.cancels),
            commands=self.store.commands_of(*key_of(flow)),
            aborts=dict(answers.aborts),
            pods={job: pods for job in uids if (pods := self.store.pods.of(job))},
            gone_pods={job: pods for job in uids if (pods := self.store.pods.gone_of(job))},
            pods_followed=self.store.follows_pods,
            read=dict(answers.read),
            answers=self.wants.answers(uid),
        )

    def _claim_takers(self, flow: JobFlow) -> Sequence[JobFlow]:
        """Return the flows that may have taken claims of others, if the plan of a flow asks who has
        claims: at its start, and for a Command after its end."""
        if flow.final:
            asks = bool(self.store.commands_of(*key_of(flow)))
        elif (reuse := flow.status.reuse) is not None:
            asks = reuse.moving_claims
        else:
            has_claims = flow.spec.volume_claims is not None
            asks = flow.spec.reuse is not None or (has_claims and untouched(flow))
        return tuple(self.store.claim_takers(flow.metadata.namespace)) if asks else ()

    def _status_wait(self, flow: JobFlow, plan: Plan, answers: Answers) -> float | None:
        """Return the seconds until the status may be written; None if there is nothing to write."""
        if (wait := self.foreign.wait(key_of(flow))) is not None:
            return wait
        if plan.status == flow.status:
            return None
        if answers.sent == (timeless(plan.status), flow.metadata.resource_version):
            return None  # the server stored it differently: a CRD without our fields drops them
        if plan.urgent or answers.written_at is None:
            return 0.0
        now = self.clock()
        if answers.changed_at is None:
            answers.changed_at = now
        seconds = max(self.status_seconds, SECONDS_A_STEP * len(plan.status.conditions or ()))
        due = max(answers.changed_at + SETTLE_SECONDS, answers.written_at + seconds)
        if due > now:
            return due - now
        late = answers.changed_at + PROGRESS_SECONDS
        if late <= now or self.order.has_room:
            return 0.0
        # writes that flows wait for go first
        key = key_of(flow)
        self.order.when_room(key, lambda: self.queue.add(key))
        return late - now


def is_unstarted(flow: JobFlow) -> bool:
    """Whether the flow gives way: it has not started, and is no part of a flow that has."""
    return flow.status.start_time is None and not flow.is_child


def _suspension(flow: JobFlow) -> tuple[datetime | None, str, bool]:
    return flow.status.suspended_at, flow.status.suspended_by, flow.final
