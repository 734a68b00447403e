"""vcjobs that follow a script, and their status as Volcano writes it."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime, timedelta

import msgspec

from jobflow.api.volcano.job import Job, JobCondition, JobState, JobStatus, TaskOutline, TaskState
from jobflow.api.volcano.pod import Pod
from support.plan.plan_pods import pod_of
from support.sandbox.containers import ended, with_containers

FAILURE_REASONS = {"Failed": "JobFailed", "Terminated": "JobTerminated", "Aborted": "JobAborted"}
ENDED = frozenset({"Completed", *FAILURE_REASONS})
SOON, NEVER = 1, 10**6


@dataclass(frozen=True, repr=False)
class Script:
    """The behavior of a vcjob, in whole seconds."""

    pending: int = 1
    """Seconds from its creation to Running."""
    lasts: int | None = 2
    """Seconds from Running to its end; None: until it is aborted or deleted."""
    end: str = "Completed"
    runs: bool = True
    """Whether it is ever Running."""
    output: Mapping[str, object] | None = None
    """Its termination message."""
    node: str = "n1"
    disrupted: bool = False
    """Whether the cluster ends its pod."""
    watched: bool = True
    """Whether its pods are watched, or only known when they are read."""
    obeys: int = SOON
    """Seconds that it continues when it is aborted; after more than a minute it is deleted."""
    refused: bool = False
    """Whether the API server refuses it (422)."""
    flow_error: bool = False
    """Of a child flow: whether it fails by an error of the flow itself."""
    is_changed: bool = False
    """Of a child flow that reuses one which has completed: whether a job runs in it."""

    def __repr__(self) -> str:
        changed = (entry for entry in fields(self) if getattr(self, entry.name) != entry.default)
        return "Script(" + ", ".join(f"{e.name}={getattr(self, e.name)!r}" for e in changed) + ")"


@dataclass
class Vcjob:
    """A vcjob and its state; times are seconds since the start of the flow."""

    name: str
    uid: str
    script: Script
    created_at: float
    phase: str = ""
    ran: float | None = None
    """When it was first Running."""
    deleted: bool = False
    to_abort: float | None = None
    """When it is Aborted, if an abort was requested."""

    @property
    def ended(self) -> bool:
        return self.phase in ENDED

    @property
    def alive(self) -> bool:
        """Whether it counts for the parallelism."""
        return not self.ended and not self.deleted

    @property
    def same_as(self) -> "Vcjob":
        """The vcjob or child flow for which it counts in what follows."""
        return self

    @property
    def has_flow_error(self) -> bool:
        return False

    @property
    def has_pods(self) -> bool:
        """Whether a failure is that of a pod, of its own or of a child flow."""
        return True

    @property
    def failure_reason(self) -> str:
        """The reason of a step whose attempt failed by itself."""
        return FAILURE_REASONS[self.phase]

    @property
    def output(self) -> Mapping[str, object] | None:
        return self.script.output if self.phase == self.script.end else None

    def next_move(self) -> tuple[float, str] | None:
        """Return the time and the phase of its next change."""
        if not self.alive:
            return None
        script, start = self.script, math.ceil(self.created_at) + self.script.pending
        moves: list[tuple[float, str]] = []
        if not self.phase:
            moves.append((start, "Running" if script.runs else script.end))
        elif script.lasts is not None:
            moves.append((start + script.lasts, script.end))
        if self.to_abort is not None:
            moves.append((self.to_abort, "Aborted"))
        return min(moves, default=None)

    def move(self, phase: str, now: float) -> None:
        self.phase = phase
        if phase == "Running" and self.ran is None:
            self.ran = now

    def abort(self, now: float) -> None:
        if self.to_abort is None and self.script.obeys < NEVER:
            self.to_abort = math.ceil(now) + self.script.obeys


def with_phase(job: Job, phase: str, at: datetime) -> Job:
    at = at.replace(microsecond=0) + timedelta(seconds=1 if at.microsecond else 0)
    history = [*(job.status.conditions or ()), JobCondition(status=phase, last_transition_time=at)]
    status = JobStatus(
        state=JobState(phase=phase, last_transition_time=at),
        conditions=history,
        task_status_count={"t": TaskState(phase={phase: 1})} if phase == "Running" else None,
    )
    return msgspec.structs.replace(job, status=status)


def pods(job: Job, vcjob: Vcjob) -> dict[str, Pod]:
    """The pods of a vcjob that has ended by itself."""
    succeeded = vcjob.phase == "Completed"
    task = (job.spec.tasks or [TaskOutline(name="t")])[0].name or "t"
    pod = pod_of(job, task, 0, "Succeeded" if succeeded else "Failed")
    message = "" if vcjob.output is None else json.dumps(vcjob.output)
    container = ended(0 if succeeded else 1, message=message)
    reason = "Evicted" if vcjob.script.disrupted and not succeeded else ""
    pod = with_containers(pod, container, node=vcjob.script.node, reason=reason)
    return {pod.metadata.name: pod}
