"""Progress of a step in a few words: its runs, the tasks of its job, the case of its switch."""

from collections import Counter
from collections.abc import Iterator, Mapping

from jobflow.api.flow.control import Case, ForEach, to_number
from jobflow.api.flow.status import ENDED_STEP_PHASES, RunCondition, StepCondition, StepPhase
from jobflow.api.flow.step import Step
from jobflow.api.volcano.job import TaskState
from jobflow.api.volcano.pod import PodPhase
from jobflow.core.limits import MAX_RUNS
from jobflow.core.pods.failure import describe_end
from jobflow.core.reasons import StepReason
from jobflow.core.spec.items import get_items
from jobflow.core.spec.step_commands import asks
from jobflow.core.text import format_count, shorten
from jobflow.core.work import ends_in_status

_MAX_EXPRESSION = 120
"""Characters of an expression in a sentence."""
CAUSE_DROPPED = "the cause was dropped, because the status of the flow is too large"


def format_run_progress(step: Step, condition: StepCondition, *, brief: bool = False) -> str:
    """Return the progress of items or repeats; empty for other steps and before the first run.

    Items: `12/40 items done, 3 running, 1 failed`, at the end `40 items`, `1/1 items, 3 not taken`
    or `1/8 items done, 1 failed, 6 not started`; `brief`: `12/40 items`, at the end `1 of 8
    failed`. Items that a user has skipped are done. Repeats: `run 3 of at most 10`, at the end `3
    runs`; `brief`: `run 3`.
    """
    runs = condition.runs or ()
    finished = condition.phase in ENDED_STEP_PHASES
    # a run from before a retry of the flow is none of its present runs
    if step.repeat is not None:
        runs = [run for run in runs if not run.is_left_over]
    if step.repeat is not None and runs:
        if finished:
            return format_count(len(runs), "run")
        most = "" if brief else f" of at most {to_number(step.repeat.max) or MAX_RUNS}"
        return f"run {len(runs)}{most}"
    items = get_items(step, condition.decisions)
    if items is None:
        return ""
    if not runs:
        return "no items" if finished and not items else ""
    total = len(items)
    skipped = sum(run.reason == StepReason.SKIPPED_BY_USER for run in runs)
    done = sum(run.phase == StepPhase.COMPLETED for run in runs) + skipped
    reused = sum(run.reason == StepReason.REUSED for run in runs)
    if finished and done == total:
        parts = {"reused": reused, "skipped": skipped} if not brief else {}
        some = "".join(f", {n:,} {what}" for what, n in parts.items() if 0 < n < total)
        return format_count(total, "item") + some
    failed = sum(run.phase == StepPhase.FAILED for run in runs)
    not_taken = sum(run.reason == StepReason.NOT_TAKEN for run in runs)
    if finished and not_taken == total:
        return f"none of {format_count(total, 'item')} taken"
    share = f"{done:,}/{total - not_taken:,} {'item' if total == 1 else 'items'}"
    if brief:  # beside the phase Failed, the number of those that completed misleads
        return f"{failed:,} of {total:,} failed" if finished and failed else share
    ended = sum(run.phase in ENDED_STEP_PHASES for run in runs)
    again = (StepReason.RETRYING, StepReason.JOB_LOST)
    waiting = [run for run in runs if run.phase == StepPhase.WAITING]
    counts = {
        "running": sum(run.is_alive for run in runs),
        "to approve": sum(asks(run) for run in waiting),
        "to run again": sum(run.reason in again for run in waiting),
        "reused": reused,
        "skipped": skipped,
        "failed": failed,
        "not started": total - ended if finished else 0,
        "not taken": not_taken,
    }
    verb = "" if finished and done + not_taken == total else " done"
    return f"{share}{verb}" + "".join(f", {n:,} {what}" for what, n in counts.items() if n)


def message_of(condition: RunCondition) -> str:
    """Return the message of a step or a run; if it failed and the message was dropped, what its
    failure says, or that the cause was dropped."""
    has_cause = bool(condition.message) or not condition.reason
    if has_cause or condition.phase != StepPhase.FAILED:
        return condition.message
    failure = condition.failure
    if failure is None or not failure.pod:
        return CAUSE_DROPPED
    task = f" (task {failure.task})" if failure.task else ""
    return f"pod {failure.pod}{task}: {describe_end(failure)}"


def has_failed_pods(step: Step, condition: StepCondition) -> bool:
    """Return whether pods of the job of a Completed step failed; its message says how many."""
    return not ends_in_status(step) and bool(condition.message) and not condition.reason


def format_case(step: Step, condition: StepCondition) -> str:
    """Return the case that a switch chose: `case 2 of 3: price-large`; empty if it chose none."""
    decisions = condition.decisions
    if decisions is None or (case := step.case_of(decisions)) is None:
        return ""
    which = f"case {(decisions.case or 0) + 1} of {len(step.switch or ())}"
    return f"{which}: {case.template}" if case.template else which


def describe_work(step: Step, case: Case | None) -> str:
    """Return what a step runs in a case of its switch, in words: `the JobTemplate train`."""
    if name := step.template_for(case):
        return f"the JobTemplate {name}"
    return "its container" if (case or step).container is not None else "its jobSpec"


def format_task_progress(counts: Mapping[str, TaskState] | None) -> list[str]:
    """Return a text for each task, unfinished ones first: `worker 1/4 done, 1 failed`, or `worker
    2/4 running` while no pod is done. A job of one running pod has no text."""
    known = {task: Counter(state.phase) for task, state in (counts or {}).items()}
    known = {task: phases for task, phases in known.items() if phases.total()}
    running = sum(phases[PodPhase.RUNNING] for phases in known.values())
    if running == 1 == sum(phases.total() for phases in known.values()):
        return []
    ranked = []
    for task, phases in known.items():
        total, done, failed = phases.total(), phases[PodPhase.SUCCEEDED], phases[PodPhase.FAILED]
        # first those with some pods done, then those of which some do not run yet
        rank = 2 if phases[PodPhase.RUNNING] == total else 1
        if done:
            rank = 3 if done == total else 0
        has_ended = done or failed == total
        text = f"{task} {done if has_ended else phases[PodPhase.RUNNING]}/{total} "
        text += "done" if has_ended else "running"
        ranked.append((rank, task, text + (f", {failed} failed" if failed else "")))
    return [text for _, _, text in sorted(ranked)]


def describe_tolerance(each: ForEach | None) -> Iterator[str]:
    """Yield how many items of a step may fail, and which are needed."""
    if each is None:
        return
    if each.max_failed is not None:
        yield f"It completes if at most {each.max_failed} of its items fail (forEach.maxFailed)."
    if each.min_success is not None:
        least = f"{each.min_success} of its items have completed (forEach.minSuccess)"
        yield f"It completes as soon as {least}."
    if each.until is not None:
        yield f"It completes as soon as {quote_expression(each.until)} holds (forEach.until)."


def quote_expression(text: str) -> str:
    """Return an expression as part of a sentence, on one line and cut if it is long."""
    return f"`{shorten(' '.join(text.split()), _MAX_EXPRESSION)}`"
