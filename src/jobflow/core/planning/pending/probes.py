"""State of a step's probe on one target: passed, still possible, or impossible.

The number of pods that have reached a phase is the largest of several counts: watched pods,
Volcano's own count, the stored count, and pods that were read live. Each of them may be behind, so
each can show that the number is reached, but only the live read after the vcjob has ended can show
that it is not.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import NamedTuple

from jobflow.api.flow import step as api
from jobflow.api.flow.status import StepCondition
from jobflow.api.flow.step import Step
from jobflow.api.volcano.pod import ENDED_POD_PHASES, Pod, PodPhase
from jobflow.core.planning.actions import Check, JobProbe, ProbeResult, ReadPods
from jobflow.core.planning.observed.steps import ObservedStep
from jobflow.core.planning.observed.view import View
from jobflow.core.planning.work.vcjob import unread
from jobflow.core.spec.readiness import StepEnd, TargetState
from jobflow.core.text import format_count

Counts = Mapping[str, Mapping[str, int]]
"""How many pods were seen, by task and phase."""
REACHED: Mapping[str | None, frozenset[str]] = {
    PodPhase.PENDING: ENDED_POD_PHASES | {PodPhase.PENDING, PodPhase.RUNNING, PodPhase.UNKNOWN},
    PodPhase.RUNNING: ENDED_POD_PHASES | {PodPhase.RUNNING},
    PodPhase.SUCCEEDED: frozenset({PodPhase.SUCCEEDED}),
    PodPhase.FAILED: frozenset({PodPhase.FAILED}),
}
"""The phases of pods that have reached a phase or passed it. A pod whose node is lost (Unknown) was
Pending; it is not known whether it runs."""
_HIGHEST_PORT = 65535
_UNSEEN: Mapping[StepEnd, TargetState] = {
    StepEnd.NOT_TAKEN: TargetState.PASSED_OVER,
    StepEnd.UPSTREAM_FAILED: TargetState.UPSTREAM_FAILED,
    StepEnd.STOPPED: TargetState.STOPPED,
}
"""States of targets that ended without a vcjob."""


class ProbeState(NamedTuple):
    """The state of a probe on one target."""

    reach: TargetState
    message: str = ""
    """Why it has not passed yet or cannot pass; "" if nothing is known yet."""
    probe: JobProbe | None = None
    """The requests to its pods, also those that passed and are not stored yet."""
    read: ReadPods | None = None
    """The read that is needed before it is called impossible."""
    wake_at: datetime | None = None
    """When that read may be sent again."""


class Probing:
    """The probes of one plan. Counts of a target are kept."""

    def __init__(self, view: View, now: datetime) -> None:
        self._view = view
        self._now = now
        self._counts: dict[str, list[Counts]] = {}

    def look(
        self,
        step: Step,
        probe: api.Probe,
        target: ObservedStep,
        now: StepCondition,
        end: StepEnd | None,
    ) -> ProbeState:
        """Return the state of a probe that has not passed before. `now`: the target's condition."""
        job = target.job
        if end is not None and end in _UNSEEN:
            return ProbeState(_UNSEEN[end])
        if end is None and (job is None or target.gone):
            return ProbeState(TargetState.NOT_YET)
        missing = self._missing(probe, target, now)
        if job is None and not now.job:
            why = f"{target.step.name} ended before it had a job"
            return ProbeState(TargetState.UNSATISFIABLE, why)
        if job is None:
            if not missing and not (probe.http_get_list or probe.tcp_socket_list):
                return ProbeState(TargetState.MET)
            why = missing or "its pods cannot answer any more"
            return ProbeState(TargetState.UNSATISFIABLE, f"the job {now.job} is gone, and {why}")
        sizes = _replicas(target)
        if fault := next(_faults(probe, sizes, job.metadata.name), ""):
            return ProbeState(TargetState.UNSATISFIABLE, fault)
        # one prober asks for all entries, so that they pass in one round
        checks = tuple(_checks(probe, sizes))
        uid, name = job.metadata.uid, job.metadata.name
        asked = JobProbe(step.name, name, uid, checks) if checks else None
        result: ProbeResult = self._view.answers.get((step.name, uid), ProbeResult())
        unanswered = bool(checks) and not result.passed
        if not missing and not unanswered:
            return ProbeState(TargetState.MET, probe=asked)
        # as long as the job runs, each of its pods may still get there
        if end is None:
            return ProbeState(TargetState.NOT_YET, missing or _unanswered(result, checks), asked)
        end_of_job = f"the job {name} ended {job.phase if job.ended else now.phase}"
        if unanswered:
            why = f"{end_of_job} before the probe passed: {_unanswered(result, checks)}"
            return ProbeState(TargetState.UNSATISFIABLE, why)
        waits = unread(job, self._view, self._now)
        if waits is not None and job.ended:  # one that somebody has resumed has ended for its step
            why = f"; its pods cannot be read yet: {waits.trouble}" if waits.trouble else ""
            return ProbeState(TargetState.NOT_YET, f"{missing}{why}", asked, *waits[1:])
        # the live read after the end is the last word
        read = self._view.read.get(uid)
        why = f"; its pods could not be read: {read.trouble}" if read and read.trouble else ""
        return ProbeState(TargetState.UNSATISFIABLE, f"{end_of_job} with {missing}{why}")

    def _missing(self, probe: api.Probe, target: ObservedStep, now: StepCondition) -> str:
        """Return the message about the first task with too few pods in the phase, or ""."""
        sizes = _replicas(target) if probe.task_status_list else {}
        for entry in probe.task_status_list or ():
            task = entry.task_name or ""
            size = sizes.get(task)
            need = size if entry.count is None else entry.count
            if need is None:
                return f"how many pods task {task} had is not known"
            seen = self._seen(target, now, task, entry.phase)
            if seen < need:
                of = f"{'' if need == size else 'at least '}{format_count(need, 'pod')}"
                return f"{seen} of {of} of task {entry.task_name} {entry.phase}"
        return ""

    def _seen(self, target: ObservedStep, now: StepCondition, task: str, phase: str | None) -> int:
        counts = self._counts.get(target.key)
        if counts is None:
            by_volcano, counts = [now.task_status_count], []
            if (job := target.job) is not None:
                by_volcano.append(job.status.task_status_count)
                counts.append(_tally(self._view.pods.get(job.metadata.uid, {}).values()))
                if (read := self._view.read.get(job.metadata.uid)) is not None:
                    counts.append(_tally(read.pods))
            for count in by_volcano:
                counts.append({task: state.phase or {} for task, state in (count or {}).items()})
            self._counts[target.key] = counts
        reached = REACHED.get(phase, frozenset())
        return max(
            (sum(n for p, n in c[task].items() if p in reached) for c in counts if task in c),
            default=0,
        )


def _replicas(target: ObservedStep) -> Mapping[str, int]:
    """Return the replicas of each task of a target; empty if its vcjob is gone."""
    tasks = (target.job.spec.tasks if target.job is not None else None) or ()
    # Volcano names a task without a name so
    return {task.name or f"default{n}": task.replicas or 0 for n, task in enumerate(tasks)}


def _tally(pods: Iterable[Pod]) -> dict[str, Counter[str]]:
    # as Volcano counts, except that an ended pod counts although it is being deleted
    counts: dict[str, Counter[str]] = {}
    for pod in pods:
        if pod.ended or pod.metadata.deletion_timestamp is None:
            counts.setdefault(pod.task, Counter())[pod.phase] += 1
    return counts


def _checks(probe: api.Probe, sizes: Mapping[str, int]) -> Iterator[Check]:
    for get in probe.http_get_list or ():
        task = get.task_name or ""
        yield Check(task, sizes.get(task, 0), get.port or 0, get.path or "/", get.header)
    for tcp in probe.tcp_socket_list or ():
        task = tcp.task_name or ""
        yield Check(task, sizes.get(task, 0), tcp.port or 0)


def _unanswered(result: ProbeResult, checks: Iterable[Check]) -> str:
    first = next(iter(checks))
    return result.message or f"task {first.task} has not answered at port {first.port} yet"


def _faults(probe: api.Probe, sizes: Mapping[str, int], job: str) -> Iterator[str]:
    # admission refuses these if it knows the template
    requests = (*(probe.http_get_list or ()), *(probe.tcp_socket_list or ()))
    for entry in (*requests, *(probe.task_status_list or ())):
        if (entry.task_name or "") not in sizes:
            yield f"the job {job} has no task {entry.task_name or 'without a name'}"
    for request in requests:
        if not 1 <= (request.port or 0) <= _HIGHEST_PORT:
            yield f"{request.port or 0} is no port"
        if sizes.get(request.task_name or "", 1) < 1:
            yield f"task {request.task_name} of the job {job} has no pods that could answer"
    for get in probe.http_get_list or ():
        if get.path and not get.path.startswith("/"):
            yield f"the path {get.path} does not begin with a slash"
    for entry in probe.task_status_list or ():
        size = sizes.get(entry.task_name or "", 0)
        if entry.phase not in REACHED:
            yield f"{entry.phase or 'nothing'} is no phase that a pod reaches"
        if entry.count is not None and entry.count > size:
            pods = format_count(size, "pod")
            yield f"task {entry.task_name} of the job {job} has {pods}, not {entry.count}"
