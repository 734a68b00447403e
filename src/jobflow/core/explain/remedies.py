"""Sentences on what to do about the reason of a step: what to run, read or correct."""

from collections.abc import Iterator, Mapping
from datetime import datetime

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import RunCondition, StepCondition, StepPhase
from jobflow.api.flow.step import Step
from jobflow.api.resources import ObjectMeta
from jobflow.core.names import root_of
from jobflow.core.reasons import StepReason
from jobflow.core.spec.readiness import is_tolerated
from jobflow.core.spec.step_commands import asks
from jobflow.core.text import format_command, format_duration
from jobflow.core.work import work_of

REMEDIES: Mapping[str, str] = {
    StepReason.WAITING_FOR_TEMPLATE: "Apply the JobTemplate {template}; the step then starts by "
    "itself.",
    StepReason.WAITING_FOR_APPROVAL: "{approve} approves it, {reject} rejects it.",
    StepReason.STARTING: "This takes a moment; if it lasts, check that `jobflow serve` runs.",
    StepReason.CREATE_REFUSED: "Remove the cause, such as an exhausted quota.\n"
    "JobFlow tries again by itself{again}.",
    StepReason.NAME_IN_USE: "It starts by itself once that job has been deleted.",
    StepReason.JOB_LOST: "JobFlow creates the {noun} again{again}.",
    StepReason.RETRYING: "{look}",
    StepReason.CONCURRENCY: "{why} names the flows that it waits for.",
    StepReason.SUSPENDED: "{resume} resumes the flow.",
    StepReason.PARALLELISM: "It starts by itself once a job of the flow has ended.",
    StepReason.BLOCKED: "It can never start.\nCorrect the flow in its file, remove this one with "
    "{cancel}, and submit the file again.",
    StepReason.PODS_UNREAD: "JobFlow tries to read them again for up to five minutes.",
    StepReason.OUTPUTS_MISSING: "Its pods were deleted before their outputs could be read, so "
    "expressions and references to its outputs have no value.",
    StepReason.JOB_FAILED: "{look}",
    StepReason.TOO_MANY_FAILED: "{look}",
    StepReason.FLOW_FAILED: "For the details of its flow, {child}.",
    StepReason.JOB_TERMINATED: "A policy of its template or a command ended the job; see "
    "{describe}.",
    StepReason.JOB_ABORTED: "A policy of its template or a command ended the job; see {describe}.",
    StepReason.REFUSED: "If the template is wrong, correct it, and run {retry}.\n"
    "If a patch is wrong, correct it in the flow's file, and submit the file under another name: "
    "{submit}.",
    StepReason.PROBE_UNSATISFIABLE: "Correct the probe, or the job that it checks.",
    StepReason.OUTPUTS_TOO_LARGE: "Write shorter termination messages: at most 4 KiB for a step "
    "and 64 KiB for a flow. Instead of a long list, output its length n, and let each item of "
    "`range(n)` read its entry from a volume by its index.",
    StepReason.EXPRESSION_ERROR: "Test first whether a value exists, such as by "
    '`has(steps["a"].outputs.x)`, and submit the corrected file under another name: {submit}.',
    StepReason.ITEMS_MISMATCH: "Correct forEach, so that the lists have the same length, and "
    "submit the file under another name: {submit}.",
    StepReason.QUEUE_TIMEOUT: "{retry} runs it again.\nFor more time, or another queue in the next "
    "attempt, set queueTimeout, or retry with patch.jobSpec.queue, and submit the file under "
    "another name: {submit}.",
    StepReason.CANCELLED_BY_USER: "{rerun} runs it again.",
    StepReason.SKIPPED_BY_USER: "{rerun} runs it after all.",
    StepReason.REJECTED: "{retry} asks for approval again.",
    StepReason.NOT_TARGETED: "To run it too, add it to spec.targets in the flow's file, and submit "
    "the file under another name: {submit}.",
}
"""Sentences, a line each, on how to start a waiting step or prevent another failure. A reason whose
message says it has none."""


def describe_remedy(
    flow: JobFlow,
    step: Step,
    condition: StepCondition,
    now: datetime,
    *,
    above: str,
    on_page: bool = False,
) -> Iterator[str]:
    """Yield what to do about the reason of a step or, if the step has none, about a failed run.
    `above`: the path from the outermost flow to the steps of this one, such as `samples/3/`;
    `on_page`: without the commands of what the page has beside it: logs and buttons."""
    by_hand = (StepReason.CANCELLED_BY_USER, StepReason.SKIPPED_BY_USER)
    if on_page and (asks(condition) or condition.reason in by_hand):
        return
    # a step with items has the reason of one of them
    runs, reason = condition.runs or (), (condition.phase, condition.reason)
    failed = (run for run in runs if run.phase == StepPhase.FAILED)
    same = (run for run in runs if run.reason and (run.phase, run.reason) == reason)
    run = next(same, None) or next(failed, None)
    text = REMEDIES.get(condition.reason or (run.reason if run else ""), "")
    again, meta = condition.next_attempt_time, flow.metadata
    case = step.case_of(condition.decisions)
    work = work_of(step, case)
    wait = again - now if again and again > now else None
    root = root_of(flow)
    retry = "jobflow retry --tolerated" if is_tolerated(step, condition) else "jobflow retry"
    item = f"/{run.index}" if run is not None and run.index is not None else ""
    look = ""
    if work.has_objects:
        look = _describe_look(flow, step.name, run or condition, on_page=on_page)
    child = ObjectMeta(name=(run or condition).job, namespace=meta.namespace)
    yield from text.format(
        template=step.template_for(case),
        noun=work.noun,
        again=f" in {format_duration(wait)}" if wait else "",
        resume=format_command("jobflow resume", meta),
        why=format_command("jobflow why", meta),
        retry=format_command(retry, root),
        rerun=format_command("jobflow retry", root, f" --step {above}{step.name}{item}"),
        approve=format_command("jobflow approve", meta, f" {step.name}{item}"),
        reject=format_command("jobflow reject", meta, f" {step.name}{item}"),
        cancel=format_command("jobflow delete --cancel", meta),
        submit=format_submit(flow),
        look=look,
        describe=describe_job(flow, condition),
        child=format_command("jobflow why", child),
    ).splitlines()


def format_submit(flow: JobFlow) -> str:
    # beside the flow that it replaces: the outermost one, because a child flow has no file
    return format_command("jobflow submit FILE --name", root_of(flow), "-2")


def describe_job(flow: JobFlow, run: RunCondition) -> str:
    """Return the command that shows the vcjob of a step or a run."""
    return f"`kubectl describe vcjob -n {flow.metadata.namespace} {run.job}`"


def _describe_look(flow: JobFlow, name: str, run: RunCondition, *, on_page: bool) -> str:
    failure, meta = run.failure, flow.metadata
    if failure is not None and not (failure.pod or failure.step):
        failure = None  # it ran out of time
    if failure is not None and failure.pod and failure.exit_code is None:
        return f"See `kubectl describe pod -n {meta.namespace} {failure.pod}`."
    if on_page:
        return f"See its job: {describe_job(flow, run)}." if failure is None else ""
    index = f"/{run.index}" if run.index is not None else ""
    logs = format_command("jobflow logs", meta, f" {name}{index}")
    if failure is None:  # no pod was found that explains it
        return f"See its log, {logs}, or its job, {describe_job(flow, run)}."
    return f"See its log: {logs}."
