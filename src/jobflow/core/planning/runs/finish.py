"""End of a run whose vcjob has ended, with everything that is kept of it.

Pods are deleted with their vcjob, so their information is stored together with the end: the pod
that failed, the outputs, the counts of tasks. If the watched pods do not show it, the pods are read
live first; until then the step and the vcjob's record stay as before the end. A read that fails is
tried again for PATIENCE; then the end is stored without it. The pods of an aborted vcjob that did
not complete are not read. It ends for the stored reason, with one exception: after a suspension
only an Aborted vcjob does, because one that ends Failed or Terminated has failed by itself.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from jobflow.api.flow.status import RequestedHours, RunCondition, StepPhase
from jobflow.api.volcano.job import Job, JobPhase, TaskState
from jobflow.api.volcano.pod import ENDED_POD_PHASES, Pod, PodPhase
from jobflow.core.planning.actions import ReadPods
from jobflow.core.planning.causes import name_cause
from jobflow.core.planning.children import ChildFlow
from jobflow.core.planning.context import PlanContext
from jobflow.core.planning.decision import RunDecision
from jobflow.core.planning.job_records import before_its_end, job_record, running_time
from jobflow.core.planning.known_jobs import pack_uid
from jobflow.core.planning.observed import FAILURES, ObservedRun
from jobflow.core.planning.runs.abort import aborted, intent
from jobflow.core.planning.runs.timeout import deadline
from jobflow.core.planning.view import PodsRead, View
from jobflow.core.pods.disruption import find_eviction_by_policy
from jobflow.core.pods.failure import PodFailure, find_first_failure
from jobflow.core.pods.outputs import (
    OutputsTooLarge,
    count_containers,
    find_output_pod,
    has_output_pod,
    parse_outputs,
    read_message,
)
from jobflow.core.pods.resources import add_hours, replace_hours, sum_requests
from jobflow.core.reasons import FlowReason, StepReason
from jobflow.core.text import format_count, format_go_duration, shorten
from jobflow.core.timestamps import add, truncate_to_second

PATIENCE = timedelta(minutes=5)
"""How long JobFlow tries to read pods that cannot be read at present."""
_FOR_A_LIST = (
    "; keep the list on a volume and output its length n: forEach.from with range(n) then gives "
    "each job an index, for its entry of the list"
)
"""The way out if a list is too long for outputs."""
MOST_AVOIDED = 10
"""Most nodes that an attempt avoids."""


class Insight(NamedTuple):
    """The information of pods about the end of their vcjob."""

    pods: tuple[Pod, ...] = ()
    blamed: PodFailure | None = None
    outputs: str | None = None
    """The termination message with the step's outputs; None if it is not known."""
    containers: int = 1
    """The containers of its pod."""
    enough: bool = True
    """Whether a live read would show nothing more."""
    missing: str = ""
    """Why outputs that another step needs are not known, else ""."""


def finish(run: ObservedRun, job: Job, ctx: PlanContext) -> RunDecision:
    """Return the end of a run whose vcjob has ended, or the read that it needs first."""
    if isinstance(job, ChildFlow):
        return RunDecision(_ended(run, job, _insight_of_child(run, job), ctx))
    insight = _insight(run, job, ctx)
    waits = None if insight.enough else unread(job, ctx.view, ctx.now)
    if waits is None:
        return RunDecision(_ended(run, job, insight, ctx))
    decision = not_judged(run, job, ctx)
    if waits.trouble:
        until = _patient_until(run, job, ctx)
        if until is None or ctx.now >= until:
            return RunDecision(_ended(run, job, insight, ctx))
        wake_at = None if waits.wake_at is None else min(waits.wake_at, until)
        message = shorten(f"has ended, and its pods cannot be read yet: {waits.trouble}")
        condition = msgspec.structs.replace(
            decision.condition, reason=StepReason.PODS_UNREAD, message=message
        )
        condition = run.stored if condition == run.stored else condition
        decision = msgspec.structs.replace(decision, condition=condition, wake_at=wake_at)
    reads = () if waits.read is None else (waits.read,)
    return msgspec.structs.replace(decision, reads=reads)


def _patient_until(run: ObservedRun, job: Job, ctx: PlanContext) -> datetime | None:
    """Return until when reading the pods is tried again, counted from the status that says so. None
    if the run is aborted, so that its end does not wait."""
    stored = run.stored
    if stored.abort_time is not None or intent(run, ctx) not in ("", StepReason.SUSPENDED):
        return None
    if stored.reason != StepReason.PODS_UNREAD:
        return ctx.now + PATIENCE
    return add(stored.last_transition_time or _since(job) or ctx.second, PATIENCE)


def not_judged(run: ObservedRun, job: Job, ctx: PlanContext) -> RunDecision:
    """Return the run as before the end of its vcjob, which is not decided yet."""
    stored = run.stored
    known = stored.attempts and stored.job == job.metadata.name
    if not known or stored.phase == StepPhase.WAITING:
        stored = running_as(run, before_its_end(job), ctx)
    return RunDecision(stored, unjudged=frozenset({job.metadata.uid}))


def running_as(run: ObservedRun, job: Job, ctx: PlanContext) -> RunCondition:
    """Return the condition of a run for the phase of its vcjob. It keeps the last counts of tasks,
    which Volcano drops in between."""
    stored = run.stored
    kept = stored.phase == job.phase and not stored.reason
    condition = run.new_condition(
        phase=job.phase,
        message=_without_pods(job),
        create_time=job.metadata.creation_timestamp,
        running_duration=job.status.running_duration or "",
        task_status_count=_last_counts(run, job),
        job=job.metadata.name,
        uid=pack_uid(job.metadata.uid),
        attempts=run.attempts,
        deadline=deadline(run, job, ctx),
        last_transition_time=stored.last_transition_time if kept else _since(job),
        failure=stored.failure if run.keeps_failure else None,
        requested_hours=stored.requested_hours,
    )
    return stored if condition == stored else condition


def _without_pods(job: Job) -> str:
    tasks = job.spec.tasks
    if not tasks or any(task.replicas for task in tasks):
        return ""
    return "has no pod and never ends, because no task of the job has replicas"


def requested_hours(run: ObservedRun, ctx: PlanContext) -> RequestedHours | None:
    """Return the requested hours of a run whose latest vcjob has ended; until now if its end was
    not seen. The hours of an attempt are added once, at its end."""
    stored, job = run.stored, run.job
    if job is None or run.between_attempts:
        return stored.requested_hours
    if isinstance(job, ChildFlow):
        return replace_hours(stored.requested_hours, None, job.hours)
    asked = sum_requests(job.spec)
    if not any(asked):
        return stored.requested_hours
    record = job_record(job, ctx.records.get(job.metadata.name), ctx)
    return add_hours(
        asked, running_time(record, truncate_to_second(ctx.now)), stored.requested_hours
    )


def _insight(run: ObservedRun, job: Job, ctx: PlanContext) -> Insight:
    uid = job.metadata.uid
    read = ctx.view.read.get(uid)
    by_name = dict(ctx.view.pods.get(uid, {}))
    if read is not None:
        by_name |= {pod.metadata.name: pod for pod in read.pods}
    pods = tuple(by_name.values())
    pod = find_output_pod(job.spec, (*pods, *ctx.view.gone_pods.get(uid, {}).values()))
    outputs = None if pod is None else read_message(job.spec, pod)
    containers = 1 if pod is None else count_containers(pod)
    if job.phase in FAILURES and _is_aborted(run, job):
        return Insight(pods, outputs=outputs, containers=containers)
    blamed = _blame(job, pods) if job.phase in FAILURES else None
    needed = run.step.name in ctx.layout.outputs_needed and has_output_pod(job.spec)
    if job.phase in FAILURES:
        enough = blamed is not None and blamed.sure and (outputs is not None or not needed)
    else:
        hidden = bool(pods) or not ctx.view.pods_followed
        enough = outputs is not None or not (needed or (hidden and has_output_pod(job.spec)))
    missing = ""
    if needed and outputs is None:
        missing = (read.trouble if read is not None else "") or "its pod is gone"
    return Insight(pods, blamed, outputs, containers, enough, missing)


def _insight_of_child(run: ObservedRun, child: ChildFlow) -> Insight:
    if child.failure is None or _is_aborted(run, child):
        return Insight()
    return Insight(blamed=PodFailure(child.failure, True, child.status.state.message))


def _blame(job: Job, pods: Iterable[Pod]) -> PodFailure | None:
    """Return the failure of a vcjob that nobody aborted."""
    blamed = find_first_failure(pods)
    evicted = None if blamed is not None and blamed.sure else find_eviction_by_policy(job)
    return blamed if evicted is None else PodFailure(evicted, False, "one of its pods was evicted")


def _ended(run: ObservedRun, job: Job, insight: Insight, ctx: PlanContext) -> RunCondition:
    reason, message = _why(run, job, insight, ctx)
    phase = ends_as(reason)
    outputs = _outputs(job, insight, ctx)
    if isinstance(outputs, OutputsTooLarge):
        excess = f"the outputs of {run.step.name} {outputs}"
        if (insight.outputs or "").rstrip().endswith("]"):  # the kubelet keeps the end
            excess += _FOR_A_LIST
        outputs = None
        if not reason:
            phase, reason = StepPhase.FAILED, StepReason.OUTPUTS_TOO_LARGE
        message = f"{message}; {excess}" if message else excess
    if insight.missing and phase == StepPhase.COMPLETED and not reason:
        reason = StepReason.OUTPUTS_MISSING
        message = f"its outputs could not be read: {insight.missing}"
    counts = _counts(run, job, insight.pods)
    if phase == StepPhase.COMPLETED and not (reason or message):
        message = describe_failed_pods(counts)
    lasted = ""  # as Volcano's runningDuration, which may come with a later event
    begin, end = job.metadata.creation_timestamp, _since(job)
    if begin is not None and end is not None:
        lasted = format_go_duration(end - begin)
    condition = run.new_condition(
        phase=phase,
        reason=reason,
        message=shorten(message),
        create_time=job.metadata.creation_timestamp,
        running_duration=job.status.running_duration or lasted,
        task_status_count=counts,
        job=job.metadata.name,
        attempts=run.attempts,
        last_transition_time=_since(job),
        failure=insight.blamed.failure if insight.blamed is not None else None,
        flow_error=isinstance(job, ChildFlow) and job.flow_error,
        outputs=outputs,
        requested_hours=requested_hours(run, ctx),
    )
    avoided = _avoided(run, insight) if phase == StepPhase.FAILED else None
    return msgspec.structs.replace(condition, avoid_nodes=avoided)


def ends_as(reason: str) -> StepPhase:
    """Return the phase of a run that ends for this reason; "" is success."""
    well = not reason or reason == StepReason.DAEMON_ENDED
    return StepPhase.COMPLETED if well else StepPhase.FAILED


def _avoided(run: ObservedRun, insight: Insight) -> list[str] | None:
    """Return the nodes that the next attempt avoids: the last ones on which pods failed."""
    retry = run.step.retry
    if retry is None or not retry.avoid_nodes:
        return None
    failed = {pod.spec.node_name for pod in insight.pods if pod.phase == PodPhase.FAILED}
    if insight.blamed is not None:
        failed.add(insight.blamed.failure.node)
    before = [node for node in run.stored.avoid_nodes or () if node not in failed]
    return [*before, *sorted(failed - {""})][-MOST_AVOIDED:] or None


def _outputs(
    job: Job, insight: Insight, ctx: PlanContext
) -> dict[str, object] | OutputsTooLarge | None:
    """Return the outputs; they take their room once a plan."""
    noted, uid = ctx.progress.outputs, job.metadata.uid
    if uid not in noted:
        try:
            if isinstance(job, ChildFlow):
                outputs = job.outputs
            else:
                outputs = parse_outputs(insight.outputs or "", insight.containers)
            if outputs is not None:
                ctx.outputs_room.take(outputs)
            noted[uid] = outputs
        except OutputsTooLarge as excess:
            noted[uid] = excess
    return noted[uid]


def _why(run: ObservedRun, job: Job, insight: Insight, ctx: PlanContext) -> tuple[str, str]:
    if job.phase not in FAILURES:
        return "", ""
    state, blamed = job.status.state, insight.blamed
    detail = blamed.message if blamed is not None else state.message or state.reason
    is_flow = isinstance(job, ChildFlow)
    what = "flow" if is_flow else "job"
    ended = f"the {what} {job.metadata.name} ended {job.phase}"
    is_by_step = state.reason == FlowReason.STEP_FAILED
    message = name_cause(ended, detail, blamed.failure if blamed and is_by_step else None)
    if _is_aborted(run, job):
        return run.stored.reason, aborted(run.stored.reason, message, run, ctx)
    if is_flow:
        by_hand = state.reason == StepReason.CANCELLED
        return StepReason.CANCELLED if by_hand else StepReason.FLOW_FAILED, message
    return FAILURES[job.phase], message


def _is_aborted(run: ObservedRun, job: Job) -> bool:
    """Return whether the end of a vcjob that did not complete is the abort that is recorded."""
    if run.stored.abort_time is None:
        return False
    return run.stored.reason != StepReason.SUSPENDED or job.phase == JobPhase.ABORTED


def _since(job: Job) -> datetime | None:
    return job.status.state.last_transition_time


def _last_counts(run: ObservedRun, job: Job) -> dict[str, TaskState] | None:
    stored = run.stored
    known = stored.task_status_count if stored.job == job.metadata.name else None
    return job.status.task_status_count or known


def _counts(run: ObservedRun, job: Job, pods: Iterable[Pod]) -> dict[str, TaskState] | None:
    """Return the last counts, updated from the pods, because Volcano drops its counts in Completing
    before the last pods are counted. For each task the source with more ended pods wins. As in
    Volcano, a pod that is being deleted is not counted."""
    counts = dict(_last_counts(run, job) or {})
    seen: dict[str, Counter[str]] = {}
    for pod in pods:
        if pod.task and pod.metadata.deletion_timestamp is None:
            seen.setdefault(pod.task, Counter())[pod.phase] += 1
    for task, phases in sorted(seen.items()):
        known = counts[task].phase or {} if task in counts else {}
        if sum(phases.values()) < sum(known.values()):
            continue  # pods that are gone are in the counts only
        if _ends(phases) > _ends(known) or not known:
            counts[task] = TaskState(phase=dict(sorted(phases.items())))
    return counts or None


def describe_failed_pods(counts: Mapping[str, TaskState] | None) -> str:
    """Return `1 of 4 pods failed`; "" if no pod has."""
    phases = Counter[str]()
    for state in (counts or {}).values():
        phases.update(state.phase or {})
    failed = phases[PodPhase.FAILED]
    return f"{failed} of {format_count(phases.total(), 'pod')} failed" if failed else ""


def _ends(phases: Mapping[str, int]) -> int:
    return sum(phases.get(phase, 0) for phase in ENDED_POD_PHASES)


class Unread(NamedTuple):
    """The pods have not been read yet."""

    trouble: str = ""
    """Why the last read failed, or ""."""
    read: ReadPods | None = None
    """The read, if it is due now."""
    wake_at: datetime | None = None
    """When it is due, if not now."""


def unread(job: Job, view: View, now: datetime) -> Unread | None:
    """Return the read of the vcjob's pods that is needed, or None if its answer is final."""
    name, uid = job.metadata.name, job.metadata.uid
    answer = view.read.get(uid, PodsRead(retry_at=now))
    if answer.retry_at is None:
        return None
    if now < answer.retry_at:
        return Unread(answer.trouble, wake_at=answer.retry_at)
    return Unread(answer.trouble, ReadPods(name, uid))
