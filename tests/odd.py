"""Flows, statuses and vcjobs as no admission lets them through and no version of ours writes them:
from before admission, by hand, by another version. Each is drawn by dice."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import msgspec

from jobflow.api import labels
from jobflow.api.control import Backoff, Case, ForEach, JobDefaults, Param, Patch, Repeat, Retry
from jobflow.api.flow_status import (
    Decisions,
    FlowState,
    JobFlowStatus,
    JobRecord,
    JobRunningHistory,
    RequestedHours,
    RunCondition,
    StepCondition,
)
from jobflow.api.job import Job, JobCondition, JobState, TaskState
from jobflow.api.jobflow import (
    DependsOn,
    JobFlow,
    JobFlowSpec,
    Probe,
    Step,
    TaskStatusProbe,
    TCPSocketProbe,
)
from jobflow.api.meta import ObjectMeta
from steps import template
from worlds import FLOW_UID, NOW, World

_NAMES = ("a", "b", "c", "a-0", "", "é")
_NUMBERS = (None, 0, 1, 2, 3, -1, 100, 2**31 - 1, -(2**31))
_EXPRESSIONS = (
    *(None, "", "true", "false", "1", "params.x", "outputs.x > 1", "item", "index > 0", "[1,2]"),
    *('steps["a"].phase == "Completed"', "x(", 'steps["zz"].phase', "params.x.map(y, y)"),
)
_DURATIONS = (None, "", "1s", "x", "99999999h", "0s", "1ns", "876000h")
_PATCHES: tuple[dict[str, Any], ...] = (
    {},
    {"queue": "$(params.x)"},
    {"queue": "$(item)", "tasks": None},
    {"tasks": [{"name": "t", "replicas": "$(steps.a.outputs.y)"}]},
    {"tasks": 3, "ttlSecondsAfterFinished": "$(index)"},
)
_TIMES = (
    *(None, NOW, NOW - timedelta(hours=1), NOW + timedelta(days=1)),
    *(datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)),
)
_PHASES = (
    *("", "Waiting", "Pending", "Running", "Completed", "Failed", "Skipped", "Aborting"),
    *("Aborted", "Terminated", "Restarting", "weird"),
)
_REASONS = (
    *("", "Cancelled", "Timeout", "Retrying", "JobLost", "Suspended", "FailurePolicy"),
    *("DaemonEnded", "NotTaken", "UpstreamFailed", "Stopped", "Parallelism", "Starting", "weird"),
)
_JOBS = ("f-a", "f-a-0", "f-a-1", "f-b", "f-c-r1", "f-a-r1")
_COMMANDS = (
    "AbortJob", "SuspendFlow", "ResumeJob", "TerminateJob", "TerminateNow", "RestartJob", "x"
)  # fmt: skip


class Odd:
    """Draws one world after another."""

    def __init__(self, dice: Random) -> None:
        self._dice = dice
        self._one = dice.choice

    def world(self) -> World:
        """A flow that was touched, what is there of it, and perhaps a Command."""
        one = self._one
        flow = JobFlow(
            metadata=ObjectMeta(
                name="f",
                namespace="ns",
                uid=FLOW_UID,
                generation=1,
                creation_timestamp=NOW,
                deletion_timestamp=one([None, None, None, NOW]),
            ),
            spec=self._spec(),
            status=self._status(),
        )
        known = {
            name: template(name) for name in ("a", "b", "c") if self._rarely(4, otherwise=True)
        }
        world = World(flow, known)
        jobs = {name: self._job(world, name) for name in _JOBS if self._rarely(3)}
        world = replace(
            world,
            jobs=jobs,
            deleted=frozenset(name for name in jobs if self._rarely(5)),
            absent=frozenset(name for name in _JOBS if self._rarely(3)),
        )
        return world.with_command(one(_COMMANDS), name="c") if self._rarely(3) else world

    def _rarely(self, one_in: int, *, otherwise: bool = False) -> bool:
        return (self._dice.randrange(one_in) == 0) is not otherwise

    # ------------------------------------------------------------------------- what is asked

    def _spec(self) -> JobFlowSpec:
        one = self._one
        last = [self._step() for _ in range(self._dice.randint(0, 2))]
        params = [Param(name="x", value=one([None, 1, [1, 2], {"a": None}, "t"]))]
        return JobFlowSpec(
            flows=one([None, *([[self._step() for _ in range(self._dice.randint(0, 4))]] * 20)]),
            finally_=one([None, last]),
            params=one([None, params]),
            parallelism=one([None, one(_NUMBERS)]),
            timeout=one(_DURATIONS),
            failure_policy=one([None, "Stop", "Abort", "Continue", "x"]),
            ttl_seconds_after_finished=one(_NUMBERS),
            suspend=one([None, True]),
            job_retain_policy=one([None, "delete", "x"]),
            job_defaults=one([None, JobDefaults(queue="q", plugins={"svc": []})]),
        )

    def _step(self) -> Step:
        one = self._one
        return Step(
            name=one(_NAMES),
            template=one([None, "a", "zz"]),
            depends_on=one([None, self._depends_on()]),
            patch=self._patch(),
            when=one([None, None, one(_EXPRESSIONS)]),
            switch=one([None, None, [], [self._case(), Case()]]),
            for_each=one([None, None, self._for_each()]),
            repeat=one([None, None, Repeat(until=one(_EXPRESSIONS), max=one(_NUMBERS))]),
            retry=one([None, self._retry()]),
            timeout=one(_DURATIONS),
            daemon=one([None, None, True]),
            continue_on_failure=one([None, True]),
        )

    def _depends_on(self) -> DependsOn:
        one = self._one
        phase = TaskStatusProbe(
            task_name=one(["t", None]), phase=one(["Running", "x", None]), count=one(_NUMBERS)
        )
        port = TCPSocketProbe(task_name="t", port=one(_NUMBERS))
        probes = [Probe(), Probe(task_status_list=[phase]), Probe(tcp_socket_list=[port])]
        return DependsOn(
            targets=one([None, [], [one(_NAMES)], [one(_NAMES), one(_NAMES)]]),
            strategy=one([None, "all", "any", "x"]),
            condition=one([None, "Completed", "Failed", "Finished", "Running", "x"]),
            probe=one([None, None, None, *probes]),
        )

    def _patch(self) -> Patch | None:
        return self._one([None, None, Patch(job_spec=self._one(_PATCHES))])

    def _case(self) -> Case:
        one = self._one
        return Case(when=one(_EXPRESSIONS), template=one([None, "b", "zz"]), patch=self._patch())

    def _for_each(self) -> ForEach:
        one = self._one
        return ForEach(
            items=one([None, [], [None], [{"k": None}, 2]]),
            from_=one(_EXPRESSIONS),
            count=one(_NUMBERS),
            parallelism=one(_NUMBERS),
        )

    def _retry(self) -> Retry:
        one = self._one
        factor = one([None, 0.0, 1.0, -1.0, 1e308, 2.0])
        backoff = Backoff(duration=one(_DURATIONS), factor=factor, max=one(_DURATIONS))
        return Retry(
            limit=one(_NUMBERS),
            backoff=one([None, backoff]),
            when=one(_EXPRESSIONS),
            avoid_nodes=one([None, True]),
        )

    # --------------------------------------------------------------------- what is remembered

    def _status(self) -> JobFlowStatus:
        one = self._one
        ran = JobRunningHistory(
            state="Running", start_timestamp=one(_TIMES), end_timestamp=one(_TIMES)
        )
        record = JobRecord(
            name="f-a",
            state=one(_PHASES),
            start_timestamp=one(_TIMES),
            end_timestamp=one(_TIMES),
            running_histories=one([None, [ran]]),
        )
        phases = ["", "Pending", "Running", "Failed", "Succeed", "Terminating", "weird"]
        return JobFlowStatus(
            state=FlowState(phase=one(phases), reason=one([*_REASONS, "Invalid"])),
            start_time=one(_TIMES),
            completion_time=one(_TIMES),
            conditions={f"f-{name}": self._condition() for name in _NAMES if self._rarely(2)},
            job_status_list=one([None, [record]]),
            suspended_at=one([None, None, one(_TIMES)]),
            suspended_by=one(["", "AbortJob", "SuspendFlow"]),
            suspended_seconds=one([None, 5, -5, 10**9]),
        )

    def _condition(self) -> StepCondition:
        one = self._one
        runs = [
            RunCondition(index=one([0, 1, None, -1, 2**31 - 1]), **self._said())
            for _ in range(self._dice.randint(0, 3))
        ]
        decided = Decisions(
            when=one([None, False]), case=one(_NUMBERS), items=one([None, [], [1, {"k": 1}]])
        )
        return StepCondition(
            passed_targets=one([None, ["a"]]),
            decisions=one([None, decided]),
            runs=one([None, runs]),
            **self._said(),
        )

    def _said(self) -> dict[str, Any]:
        one = self._one
        return {
            "phase": one(_PHASES),
            "reason": one(_REASONS),
            "create_time": one(_TIMES),
            "job": one(["", "x", *_JOBS]),
            "attempts": one([0, 1, 1, 2, -1, 2**31 - 1]),
            "next_attempt_time": one(_TIMES),
            "deadline": one(_TIMES),
            "abort_time": one([None, one(_TIMES)]),
            "last_transition_time": one(_TIMES),
            "failures": one([0, 1, -1, 200]),
            "past_attempts": one([0, 0, 1, 5, -1]),
            "avoid_nodes": one([None, [], ["n"]]),
            "outputs": one([None, {}, {"x": 2, "y": "q"}]),
            "requested_hours": one([None, RequestedHours(cpu="x")]),
            "task_status_count": one([None, {"t": TaskState(phase={"Running": 1})}]),
        }

    def _job(self, world: World, name: str) -> Job:
        one = self._one
        job = world.job(
            one("abc"), one(["", "Pending", "Running", "Completed", "Failed", "Aborted"])
        )
        said = {labels.STEP: one("abc"), labels.ATTEMPT: one(["1", "2", "x", "", "9" * 9, "٣"])}
        said |= one([{}, {labels.INDEX: one(["0", "1", "99999", "-1", "x"])}])
        since = one(_TIMES)
        state = JobState(phase=job.phase, last_transition_time=since)
        ran = [JobCondition(status="Running", last_transition_time=since)]
        odd = msgspec.structs.replace(job.status, state=state, conditions=ran)
        metadata = msgspec.structs.replace(
            job.metadata,
            name=name,
            uid=f"uid-{name}",
            labels=said,
            annotations=one([None, dict(said), {labels.TTL_SECONDS: "5"}]),
            creation_timestamp=one(_TIMES),
            deletion_timestamp=one([None, None, NOW]),
        )
        return msgspec.structs.replace(job, metadata=metadata, status=one([job.status, odd]))
