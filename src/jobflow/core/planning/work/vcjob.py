"""vcjobs: how an attempt that is a vcjob is made, aborted and settled.

Pods are deleted with their vcjob, so their information is stored together with the end: the pod
that failed, the outputs, the counts of tasks. If the watched pods do not show it, the pods are read
live first; until then the step and the vcjob's record stay as before the end. A read that fails is
tried again for PATIENCE; then the end is stored without it. The pods of an aborted vcjob that did
not complete are not read.
"""

from collections import Counter
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from jobflow.api.flow.status import RequestedHours
from jobflow.api.volcano.job import Job, JobPhase, TaskState
from jobflow.api.volcano.pod import ENDED_POD_PHASES, PodPhase
from jobflow.core.cel.expression import EvaluationFailure
from jobflow.core.manifests.job import Attempt, build_job
from jobflow.core.manifests.layers import has_log_as_message
from jobflow.core.names import predict_pod_names
from jobflow.core.planning.actions import COMMAND_AGAIN, AbortJob, DeleteJob, ReadPods
from jobflow.core.planning.context import PlanContext
from jobflow.core.planning.decision import RunDecision
from jobflow.core.planning.observed.job_history import job_record, running_time
from jobflow.core.planning.observed.steps import FAILURES, ObservedRun
from jobflow.core.planning.observed.view import PodsRead, View
from jobflow.core.planning.work.abort import Asked, ending_reason
from jobflow.core.planning.work.end import (
    AttemptEnd,
    ended,
    is_aborted,
    last_counts,
    not_judged,
    take_outputs,
)
from jobflow.core.pods.failure import PodFailure, find_eviction_by_policy, find_first_failure
from jobflow.core.pods.outputs import (
    OutputsTooLarge,
    find_output_pod,
    has_output_pod,
    parse_outputs,
    read_message,
)
from jobflow.core.pods.resources import add_hours, sum_requests
from jobflow.core.reasons import StepReason
from jobflow.core.text import shorten
from jobflow.core.timestamps import add

ABORT_PATIENCE = timedelta(seconds=60)
"""Time until a vcjob that has not ended is deleted."""
PATIENCE = timedelta(minutes=5)
"""How long JobFlow tries to read pods that cannot be read at present."""
_FOR_A_LIST = (
    "; keep the list on a volume and output its length n: forEach.from with range(n) then gives "
    "each job an index, for its entry of the list"
)
"""The way out if a list is too long for outputs."""

build = build_job


def longest_suffix(run: ObservedRun, ctx: PlanContext) -> int:
    """Return how many characters Volcano appends to the vcjob's name for its longest pod name; 0
    without a template."""
    suffixes, step = ctx.progress.pod_suffixes, run.step
    if step.name not in suffixes:
        needed = step.template_for(run.case)
        template = None if needed is None else ctx.view.templates.get(needed)
        if needed is not None and template is None:
            return 0
        attempt = Attempt(run.key, case=run.case, retried=True)
        manifest = build_job(ctx.flow, step, template, attempt)
        assert not isinstance(manifest, EvaluationFailure)  # references stay without `seen`
        suffixes[step.name] = len(predict_pod_names(manifest["spec"]).longest)
    return suffixes[step.name]


def resume(run: ObservedRun, ctx: PlanContext) -> None:
    """Return None: an ended vcjob is never continued."""


def abort(job: Job, since: datetime | None, ctx: PlanContext) -> Asked:
    """Ask Volcano to abort a vcjob, and delete it if it has not ended after ABORT_PATIENCE, or if
    no run waits for its end."""
    if job.metadata.deletion_timestamp is not None:
        return Asked()
    deadline = ctx.now if since is None else add(since, ABORT_PATIENCE)
    if ctx.now >= deadline:
        return Asked((DeleteJob.of(job),))
    if job.phase == JobPhase.ABORTING:  # Volcano has taken the Command and deletes the pods
        return Asked(wake_at=deadline)
    if (again := ctx.command_again(job.metadata.uid)) is not None:
        return Asked(wake_at=min(again, deadline))
    asks = AbortJob(job.metadata.name, job.metadata.uid)
    return Asked((asks,), min(add(ctx.now, COMMAND_AGAIN), deadline))


def settle(run: ObservedRun, job: Job, ctx: PlanContext) -> RunDecision:
    """Return the end of a run whose vcjob has ended, or the read that it needs first."""
    seen = _look(run, job, ctx)
    waits = None if seen.is_enough else unread(job, ctx.view, ctx.now)
    until, stored = None, run.stored
    if waits is not None and waits.trouble:
        if stored.abort_time is None and ending_reason(run, ctx) in ("", StepReason.SUSPENDED):
            until = ctx.now + PATIENCE
            if stored.reason == StepReason.PODS_UNREAD:  # counted from the status that says so
                since = job.status.state.last_transition_time
                until = add(stored.last_transition_time or since or ctx.second, PATIENCE)
        # the end of an abort does not wait
        if until is None or ctx.now >= until:
            waits = None  # the end is stored without its pods
    if waits is None:
        text = seen.message or ""
        outputs = take_outputs(job.metadata.uid, lambda: parse_outputs(text, seen.containers), ctx)
        # the kubelet keeps the end of a long message
        if isinstance(outputs, OutputsTooLarge) and text.rstrip().endswith("]"):
            outputs = OutputsTooLarge(f"{outputs}{_FOR_A_LIST}")
        end = seen.end._replace(outputs=outputs, hours=hours(run, job, ctx))
        return RunDecision(ended(run, job, end, ctx))
    # until then the step and the record stay as before the end, so that nothing follows from it
    decision = not_judged(run, job, ctx)
    if until is not None:
        wake_at = None if waits.wake_at is None else min(waits.wake_at, until)
        message = shorten(f"has ended, and its pods cannot be read yet: {waits.trouble}")
        condition = msgspec.structs.replace(
            decision.condition, reason=StepReason.PODS_UNREAD, message=message
        )
        condition = stored if condition == stored else condition
        decision = msgspec.structs.replace(decision, condition=condition, wake_at=wake_at)
    reads = () if waits.read is None else (waits.read,)
    return msgspec.structs.replace(decision, reads=reads)


def hours(run: ObservedRun, job: Job, ctx: PlanContext) -> RequestedHours | None:
    """Return the requested hours of a run with its latest vcjob, whose end may not be known."""
    before, asked = run.stored.requested_hours, sum_requests(job.spec)
    if not any(asked):
        return before
    name = job.metadata.name
    gone = name in ctx.view.deleted
    record = job_record(job, ctx.records.get(name), gone=gone, now=ctx.second)
    return add_hours(asked, running_time(record, ctx.second), before)


class _Seen(NamedTuple):
    """Facts that pods show about the end of their vcjob."""

    end: AttemptEnd
    """Without outputs and hours."""
    message: str | None
    """The termination message with the step's outputs; None if it is not known."""
    containers: int
    """The containers of its pod."""
    is_enough: bool
    """Whether a live read would show nothing more."""


def _look(run: ObservedRun, job: Job, ctx: PlanContext) -> _Seen:
    """Return what pods that are watched, or were read live, show."""
    uid, has_failed = job.metadata.uid, job.phase in FAILURES
    read = ctx.view.read.get(uid)
    by_name = dict(ctx.view.pods.get(uid, {}))
    if read is not None:
        by_name |= {pod.metadata.name: pod for pod in read.pods}
    pods = tuple(by_name.values())
    pod = find_output_pod(job.spec, (*pods, *ctx.view.gone_pods.get(uid, {}).values()))
    is_named = run.step.name in ctx.layout.outputs_needed
    is_log = not is_named and has_log_as_message(run.step, run.case)
    text = None if pod is None else read_message(job.spec, pod, is_log=is_log)
    needed = is_named and has_output_pod(job.spec)
    blamed, is_enough = None, True
    if has_failed and is_aborted(run, job):
        needed = False  # its reason is known without its pods
    elif has_failed:
        blamed = find_first_failure(pods, is_log=is_log)
        evicted = None if blamed is not None and blamed.sure else find_eviction_by_policy(job)
        if evicted is not None:
            blamed = PodFailure(evicted, False, "one of its pods was evicted")
        is_enough = blamed is not None and blamed.sure and (text is not None or not needed)
    else:
        # pods that ended well may have outputs; without any known pod there may be none
        hidden = bool(pods) or not ctx.view.pods_followed
        is_enough = text is not None or not (needed or (hidden and has_output_pod(job.spec)))
    missing = ""
    if needed and text is None:
        missing = (read.trouble if read is not None else "") or "its pod is gone"
    state = job.status.state
    failed_on = {each.spec.node_name for each in pods if each.phase == PodPhase.FAILED}
    if blamed is not None:
        failed_on.add(blamed.failure.node)
    # Volcano drops its counts in Completing, before it has counted the last pods
    counts = dict(last_counts(run, job) or {})
    by_task: dict[str, Counter[str]] = {}
    for each in pods:
        if each.task and each.metadata.deletion_timestamp is None:  # as in Volcano
            by_task.setdefault(each.task, Counter())[each.phase] += 1
    for task, phases in sorted(by_task.items()):
        known = counts[task].phase or {} if task in counts else {}
        if sum(phases.values()) < sum(known.values()):
            continue  # pods that are gone are in the counts only
        new, old = (sum(of.get(p, 0) for p in ENDED_POD_PHASES) for of in (phases, known))
        if new > old or not known:
            counts[task] = TaskState(phase=dict(sorted(phases.items())))
    end = AttemptEnd(
        reason=FAILURES.get(job.phase, ""),
        detail=blamed.message if blamed is not None else state.message or state.reason,
        failure=blamed.failure if blamed is not None else None,
        missing=missing,
        counts=counts or None,
        failed_on=frozenset(failed_on),
    )
    return _Seen(end, text, 1 if pod is None else len(pod.containers), is_enough)


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
