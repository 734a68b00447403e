"""How far the items of a forEach, or the runs of a repeat, have come, in a few words. It decides
nothing."""

from __future__ import annotations

from collections.abc import Sequence

from jobflow.api.flow_status import ENDED_STEP_PHASES, RunCondition, StepCondition, StepPhase
from jobflow.api.jobflow import Step
from jobflow.core.limits import MOST_RUNS
from jobflow.core.reasons import StepReason
from jobflow.core.spec.items import items_of
from jobflow.core.text import counted


def run_progress(step: Step, condition: StepCondition, *, brief: bool = False) -> str:
    """`12/40 items done, 3 running, 1 failed` and, once all are over, `40 items`, or `1/8 items
    done, 1 failed, 6 not started`; of a repeat `run 3 of at most 10` and, once it is over, `3
    runs`. Empty for any other step, and before the first run. `brief`: `12/40 items`, `run 3`."""
    runs = condition.runs or ()
    over = condition.phase in ENDED_STEP_PHASES
    if step.repeat is not None and runs:
        return _repeat(step, len(runs), over=over, brief=brief)
    items = items_of(step, condition.decisions)
    if items is None or (over and not runs):
        return "no items" if items is not None and not items and over else ""
    return _items(len(items), runs, over=over, brief=brief) if runs else ""


def _repeat(step: Step, number: int, *, over: bool, brief: bool) -> str:
    if over:
        return counted(number, "run")
    most = step.repeat.max if step.repeat is not None else None
    return f"run {number}" if brief else f"run {number} of at most {most or MOST_RUNS}"


def _items(total: int, runs: Sequence[RunCondition], *, over: bool, brief: bool) -> str:
    done = sum(run.phase == StepPhase.COMPLETED for run in runs)
    if over and done == total:
        return counted(total, "item")
    share = f"{done:,}/{counted(total, 'item')}"
    if brief:
        return share
    counts = {
        "running": sum(_has_job(run) for run in runs),
        "to run again": sum(_runs_again(run) for run in runs),
        "failed": sum(run.phase == StepPhase.FAILED for run in runs),
        "not started": total - sum(run.phase in ENDED_STEP_PHASES for run in runs) if over else 0,
    }
    said = (f", {count:,} {what}" for what, count in counts.items() if count)
    return f"{share} done{''.join(said)}"


def _has_job(run: RunCondition) -> bool:
    return run.phase not in ENDED_STEP_PHASES and run.phase not in ("", StepPhase.WAITING)


def _runs_again(run: RunCondition) -> bool:
    return run.phase == StepPhase.WAITING and run.reason in (
        StepReason.RETRYING,
        StepReason.JOB_LOST,
    )


def case_taken(step: Step, condition: StepCondition) -> str:
    """`case 2 of 3: price-large`, the case of its switch that was taken and the template; empty
    where there is no switch, or none was taken."""
    decided = condition.decisions
    if decided is None or (case := step.case_of(decided)) is None:
        return ""
    which = f"case {(decided.case or 0) + 1} of {len(step.switch or ())}"
    return f"{which}: {case.template}" if case.template else which
