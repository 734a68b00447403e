"""Reasons that an expression compares with have to be reasons that come.

A reason is a word of ours (`reasons`). Those of pods and containers, such as OOMKilled, look like
them and never come.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from jobflow.core.admission.analysis.flow_facts import Outline
from jobflow.core.admission.rule import Group, Rule
from jobflow.core.cel.variables import Comparison
from jobflow.core.reasons import StepReason
from jobflow.core.suggest import Suggester, did_you_mean
from jobflow.core.violations import Reason, Violation, quoted

OF_FAILED_ATTEMPTS = (
    "",
    StepReason.JOB_FAILED,
    StepReason.JOB_TERMINATED,
    StepReason.JOB_ABORTED,
    StepReason.TIMEOUT,
    StepReason.OUTPUTS_TOO_LARGE,
)
"""Reasons of an attempt after which `retry` may follow (`retrying`)."""
OF_STEPS = ("", *StepReason)


class _Owner(NamedTuple):
    """What has a reason, and the reasons that it may have."""

    name: str
    reasons: tuple[str, ...]


_ATTEMPT = _Owner("a failed attempt", OF_FAILED_ATTEMPTS)
_RUN = _Owner("a run", OF_STEPS)
_STEP = _Owner("a step", OF_STEPS)


def reasons_are_there(outline: Outline) -> Iterator[Violation]:
    """A comparison with any other word is the same for every attempt."""
    for each, read, _ in outline.readings.read:
        run = _ATTEMPT if each.place.field == "retry.when" else _RUN
        if "reason" in each.text:
            for found in read.comparisons():
                owner = _owner(found, run)
                if owner is not None and found.text not in owner.reasons:
                    yield Violation(each.path, Reason.INVALID, each.text, _detail(found, owner))


REASON_RULES = (Group[Rule](lambda outline: outline.expressive, (reasons_are_there,)),)


def _owner(found: Comparison, run: _Owner) -> _Owner | None:
    """Return whose reason is compared: `reason` is that of the run, `steps["x"].reason` that of a
    step. None if it is no reason."""
    match found:
        case Comparison(path=("reason",), bound=False):
            return run
        case Comparison(path=("steps", _, "reason"), bound=False):
            return _STEP
    return None


def _detail(found: Comparison, owner: _Owner) -> str:
    detail = f"character {found.at + 1}: {quoted(found.text)} is not a reason of {owner.name}"
    if guess := Suggester(owner.reasons).nearest(found.text):
        return detail + did_you_mean(guess)
    if owner is not _ATTEMPT:
        return f"{detail}; docs/reference.md lists the reasons under Status"
    _, *others, last = owner.reasons
    return f"{detail}; the reasons are {', '.join(others)} and {last}"
