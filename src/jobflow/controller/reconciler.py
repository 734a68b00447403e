"""From an event to a plan carried out: who has to be looked at again, and when.

What to do about a flow is `plan`'s to decide, how to do it is `apply`'s. Here an outcome is
handled, in one place (`_settle`): done, again at once, again later, or a retry with backoff.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

import structlog

from jobflow.api.command import Command
from jobflow.api.job import Job
from jobflow.api.jobflow import JobFlow
from jobflow.api.jobtemplate import JobTemplate
from jobflow.api.pod import Pod
from jobflow.controller.apply.api_answers import Answers, Memory, timeless
from jobflow.controller.apply.applied import Applied, Due, due_of
from jobflow.controller.apply.apply import Applier
from jobflow.controller.apply.events import Recorder
from jobflow.controller.hooks import Hooks, Result
from jobflow.controller.probes.interface import Probing
from jobflow.controller.probes.pod_index import Interest
from jobflow.controller.queue import Queue
from jobflow.core.planning.actions import Plan
from jobflow.core.planning.plan import plan as plan_flow
from jobflow.core.planning.view import View
from jobflow.kube.cache import Key, key_of
from jobflow.store import Store, flow_of, owner_uid

log = structlog.get_logger(__name__)

STATUS_SECONDS = 1.0
"""Least time between two status writes of a flow that nothing waits for."""
SETTLE_SECONDS = 0.1
"""How long such a write is held back, so that what follows at once (a vcjob made, then Pending,
then Running) is in it and not a second behind."""


@dataclass(slots=True)
class Outcome:
    """How a reconcile went."""

    again: bool = False
    after: float | None = None
    """Seconds until the flow has to be looked at though nothing happens."""
    error: str = ""
    """What failed and may work later; empty: nothing."""
    retry_after: float = 0.0
    held: bool = False
    """A request that failed earlier waits for the end of the backoff."""


class Reconciler:
    """Brings flows level with their specs. A Listener of the store; many run `work` at once."""

    def __init__(
        self,
        store: Store,
        applier: Applier,
        memory: Memory,
        recorder: Recorder,
        queue: Queue[Key],
        probing: Probing,
        *,
        status_seconds: float = STATUS_SECONDS,
        hooks: Hooks | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._status_seconds = status_seconds
        self._applier = applier
        self._memory = memory
        self._recorder = recorder
        self._queue = queue
        self._probing = probing
        self._interest = Interest(store)
        self._hooks = hooks or Hooks()
        self._now = now
        self._clock = clock

    # ------------------------------------------------------------------ events to keys

    def flow_changed(self, old: JobFlow | None, new: JobFlow | None) -> None:
        """A flow came, changed or went."""
        flow = new or old
        assert flow is not None
        if new is None:
            self._interest.forget(flow)
        self._queue.add(key_of(flow))

    def template_changed(self, old: JobTemplate | None, new: JobTemplate | None) -> None:
        """A template came, changed its spec or went: flows that still have steps may use it."""
        template = new or old
        assert template is not None
        if old is not None and new is not None and old.spec == new.spec:
            return
        for flow in self._store.flows_using(*key_of(template)):
            if not flow.final:
                self._memory.lift(key_of(flow))
                self._queue.add(key_of(flow))

    def job_changed(self, old: Job | None, new: Job | None) -> None:
        """A vcjob came, changed or went: its flow has to know, and whoever wants its name."""
        for job in (old, new):
            if job is not None and owner_uid(job):
                reference = job.metadata.controller
                assert reference is not None
                self._queue.add((job.metadata.namespace, reference.name))
        job = new or old
        assert job is not None
        for key in self._memory.released(key_of(job)):
            self._queue.add(key)

    def pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        """Something happened to a pod: only a flow that probes it has to look."""
        if (flow := self._interest.flow_of(old, new)) is not None:
            self._queue.add(flow)

    def command_changed(self, command: Command) -> None:
        """A Command on a flow came, changed or went."""
        if (flow := flow_of(command)) is not None:
            self._queue.add(flow)

    def all_flows(self) -> None:
        """Look at every flow: what happened before this process listened is not known."""
        for flow in self._store.flows:
            self._queue.add(key_of(flow))

    # ------------------------------------------------------------------ work

    async def work(self) -> None:
        """Reconcile one key after another until the queue is closed."""
        while (key := await self._queue.get()) is not None:
            started = self._clock()
            try:
                outcome = await self._reconcile_safely(key)
                result = self._settle(key, outcome)
            finally:
                self._queue.done(key)
            self._hooks.reconciled(self._clock() - started, result)

    async def _reconcile_safely(self, key: Key) -> Outcome:
        """One flow that we fail on must not take the others with it."""
        try:
            return await self.reconcile(key)
        except Exception as error:
            log.exception("reconcile failed", flow="/".join(key))
            return Outcome(error=f"{type(error).__name__}: {error}")

    def _settle(self, key: Key, outcome: Outcome) -> Result:
        """Decide what happens to the key now. This is the only place that handles an outcome.

        An error puts the flow in backoff. Until it ends, nothing that failed is repeated: a
        requeue waits for the end (the queue's rule), and a plan that an event brings about leaves
        out the requests that failed (`due`); it sends the others, so that a flow with one
        request that keeps failing can still be cancelled. Only a pass that leaves out nothing,
        has no error and asks for no other one at once ends the backoff.
        """
        if outcome.error:
            wait = self._queue.retry(key, at_least=outcome.retry_after)
            log.warning("retrying", flow="/".join(key), error=outcome.error, seconds=round(wait, 3))
        elif not outcome.held and not outcome.again:
            self._queue.forget(key)
        if outcome.after is not None:
            self._queue.add_after(key, outcome.after)
        if outcome.error:
            return Result.RETRIED
        if outcome.again:
            self._queue.add(key)
            return Result.REQUEUED
        return Result.DONE

    async def reconcile(self, key: Key) -> Outcome:
        """Plan one flow and carry the plan out."""
        flow = self._store.flow(*key)
        if flow is None:
            self._memory.forget(key)
            self._probing.forget(key)
            return Outcome()
        answers = self._memory.of(flow)
        if not self._queue.backoff(key):
            answers.failed.clear()
        plan = plan_flow(flow, self._view(flow, answers), now=self._now())
        self._probing.want(key, flow.metadata.uid, plan.probes)
        due = due_of(plan, self._status_wait(flow, plan, answers), answers.failed)
        applied = Applied()
        if due.plan.actions or due.write:
            applied = await self._applier.apply(flow, due.plan, write_status=due.write)
        if applied.status_written:
            self._hooks.recorded(flow.status, plan.status)
            for event in plan.events:
                self._recorder.record(flow, event)
        return self._outcome(flow, due, applied, answers)

    def _view(self, flow: JobFlow, answers: Answers) -> View:
        uid = flow.metadata.uid
        jobs, deleted = self._store.jobs_of(uid), self._store.deleted_of(uid)
        answers.outdate(jobs)
        uids = (job.metadata.uid for job in jobs.values())
        return View(
            templates=self._store.templates(flow.metadata.namespace),
            jobs=jobs,
            deleted=deleted | (answers.missing - jobs.keys()),
            holders=dict(answers.holders),
            refusals=dict(answers.refusals),
            held=answers.held,
            commands=self._store.commands_of(*key_of(flow)),
            aborts=dict(answers.aborts),
            pods={each: pods for each in uids if (pods := self._store.pods.of(each))},
            pods_followed=self._store.follows_pods,
            read=dict(answers.read),
            probes=self._probing.results(uid),
        )

    def _status_wait(self, flow: JobFlow, plan: Plan, answers: Answers) -> float | None:
        """Seconds until the plan's status may be written; None: there is nothing to write.

        A status that the server stored otherwise than it was sent (a CRD without our fields drops
        them) is not sent again and again.
        """
        if plan.status == flow.status:
            return None
        if answers.sent == (timeless(plan.status), flow.metadata.resource_version):
            return None
        if plan.urgent or answers.written_at is None:
            return 0.0
        now = self._clock()
        if answers.changed_at is None:
            answers.changed_at = now
        due = max(answers.changed_at + SETTLE_SECONDS, answers.written_at + self._status_seconds)
        return max(0.0, due - now)

    def _outcome(self, flow: JobFlow, due: Due, applied: Applied, answers: Answers) -> Outcome:
        if applied.status_written:
            answers.written_at, answers.changed_at = self._clock(), None
        error = "; ".join(dict.fromkeys(applied.errors))
        answers.failed |= applied.failed
        if flow.final and not answers.failed:
            self._memory.forget(key_of(flow))
        waits = [due.status_wait] if due.status_wait else []
        if due.plan.requeue_after is not None:
            waits.append(due.plan.requeue_after.total_seconds())
        return Outcome(
            again=applied.again,
            after=min(waits) if waits else None,
            error=error,
            retry_after=applied.retry_after,
            held=due.held,
        )
