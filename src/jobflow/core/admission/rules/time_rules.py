"""The rules of time: how durations are written, and which of them go together.

Source: DESIGN §1, Go's time.ParseDuration (`api.duration`).
"""

from __future__ import annotations

from collections.abc import Iterator

from jobflow.api.control import Backoff
from jobflow.api.duration import parse_duration
from jobflow.core.admission.analysis.flow_facts import Outline
from jobflow.core.admission.rule import Rule
from jobflow.core.limits import LONGEST_TTL
from jobflow.core.violations import Reason, Violation

MOST_FACTOR = 100
"""Of a backoff. With more the second pause is the longest already."""
_FIRST, _LONGEST = "1s", "5m"
"""What a backoff without `duration` or `max` has."""


def timeouts_are_durations(outline: Outline) -> Iterator[Violation]:
    timeouts = [("spec.timeout", outline.flow.spec.timeout)]
    timeouts += [(f"{outline.path(i)}.timeout", step.timeout) for i, step in outline.steered]
    for path, text in timeouts:
        if text is not None:
            yield from _misread(path, text)
            if _seconds(text) == 0:
                detail = "a timeout is longer than nothing; leave it out for none"
                yield Violation(path, Reason.INVALID, text, detail)


def backoffs_are_durations(outline: Outline) -> Iterator[Violation]:
    for path, backoff in _backoffs(outline):
        for field, text in (("duration", backoff.duration), ("max", backoff.max)):
            if text is not None:
                yield from _misread(f"{path}.{field}", text)


def backoffs_grow(outline: Outline) -> Iterator[Violation]:
    for path, backoff in _backoffs(outline):
        if (factor := backoff.factor) is not None and not 1 <= factor <= MOST_FACTOR:
            detail = f"each pause is 1 to {MOST_FACTOR} times as long as the one before"
            yield Violation(f"{path}.factor", Reason.INVALID, factor, detail)


def backoffs_have_room_to_grow(outline: Outline) -> Iterator[Violation]:
    for path, backoff in _backoffs(outline):
        first, longest = backoff.duration or _FIRST, backoff.max or _LONGEST
        least, most = _seconds(first), _seconds(longest)
        if least is None or most is None or most >= least:
            continue
        if backoff.max is None:
            detail = f"longer than max, which is {_LONGEST} where it is not set; set it too"
            yield Violation(f"{path}.duration", Reason.INVALID, first, detail)
        else:
            default = "" if backoff.duration else ", its default"
            detail = f"shorter than the first pause: duration is {first}{default}"
            yield Violation(f"{path}.max", Reason.INVALID, longest, detail)


def ttl_is_a_number_of_seconds(outline: Outline) -> Iterator[Violation]:
    ttl = outline.flow.spec.ttl_seconds_after_finished
    if ttl is not None and not 0 <= ttl <= LONGEST_TTL:
        detail = f"0 to {LONGEST_TTL} seconds (68 years); leave it out to keep the flow"
        yield Violation("spec.ttlSecondsAfterFinished", Reason.INVALID, ttl, detail)


def _backoffs(outline: Outline) -> Iterator[tuple[str, Backoff]]:
    for i, step in outline.steered:
        if step.retry is not None and step.retry.backoff is not None:
            yield f"{outline.path(i)}.retry.backoff", step.retry.backoff


def _misread(path: str, text: str) -> Iterator[Violation]:
    try:
        parse_duration(text)
    except ValueError as error:
        yield Violation(path, Reason.INVALID, text, str(error))


def _seconds(text: str) -> float | None:
    """None where it is no duration, which is told elsewhere."""
    try:
        return parse_duration(text)
    except ValueError:
        return None


TIME_RULES: tuple[Rule, ...] = (
    timeouts_are_durations,
    backoffs_are_durations,
    backoffs_grow,
    backoffs_have_room_to_grow,
    ttl_is_a_number_of_seconds,
)
