"""Rules of timeouts, retries and backoff (docs/decisions/bounds-of-control.md), and of the ttl."""

from collections.abc import Iterator

from jobflow.api.control import Backoff
from jobflow.api.duration import parse_duration
from jobflow.core.admission.analysis.flow_facts import FlowFacts
from jobflow.core.admission.analysis.job_counts import MOST_RETRIES
from jobflow.core.admission.rule import Group, Rule
from jobflow.core.limits import MAX_TTL
from jobflow.core.violations import Reason, Violation

MAX_FACTOR = 100
"""Factor of a backoff. With a larger one the second pause is the longest already."""
_DEFAULT_DURATION, _DEFAULT_MAX = "1s", "5m"
_ZERO_TIMEOUT = "a timeout is longer than 0s; leave it out for no timeout"


def timeouts_are_positive_durations(facts: FlowFacts) -> Iterator[Violation]:
    timeouts = [("spec.timeout", facts.flow.spec.timeout)]
    timeouts += [(f"{facts.path(i)}.timeout", step.timeout) for i, step in facts.steps_with_options]
    for path, text in timeouts:
        if text is not None and (detail := _duration_fault(text, zero=_ZERO_TIMEOUT)):
            yield Violation(path, Reason.INVALID, text, detail)


def retries_are_limited(facts: FlowFacts) -> Iterator[Violation]:
    for i, step in facts.steps_with_options:
        if step.retry is None:
            continue
        limit, path = step.retry.limit, f"{facts.path(i)}.retry.limit"
        if limit is None:
            detail = "set the number of attempts after the first"
            yield Violation(path, Reason.REQUIRED, None, detail)
        elif not 0 <= limit <= MOST_RETRIES:
            detail = f"a number of further attempts from 0 to {MOST_RETRIES}"
            yield Violation(path, Reason.INVALID, limit, detail)


def backoffs_are_durations(facts: FlowFacts) -> Iterator[Violation]:
    for path, backoff in _backoffs(facts):
        for field, text in (("duration", backoff.duration), ("max", backoff.max)):
            if text is not None and (detail := _duration_fault(text)):
                yield Violation(f"{path}.{field}", Reason.INVALID, text, detail)


def backoffs_grow(facts: FlowFacts) -> Iterator[Violation]:
    for path, backoff in _backoffs(facts):
        if (factor := backoff.factor) is not None and not 1 <= factor <= MAX_FACTOR:
            detail = f"each pause is 1 to {MAX_FACTOR} times as long as the one before"
            yield Violation(f"{path}.factor", Reason.INVALID, factor, detail)


def backoffs_have_room_to_grow(facts: FlowFacts) -> Iterator[Violation]:
    for path, backoff in _backoffs(facts):
        duration, longest = backoff.duration or _DEFAULT_DURATION, backoff.max or _DEFAULT_MAX
        if _duration_fault(duration) or _duration_fault(longest):
            continue
        if parse_duration(longest) >= parse_duration(duration):
            continue
        if backoff.max is None:
            detail = f"longer than max, which is {_DEFAULT_MAX} by default; set it too"
            yield Violation(f"{path}.duration", Reason.INVALID, duration, detail)
        else:
            default = "" if backoff.duration else ", its default"
            detail = f"shorter than the first pause: duration is {duration}{default}"
            yield Violation(f"{path}.max", Reason.INVALID, longest, detail)


def ttl_is_a_number_of_seconds(facts: FlowFacts) -> Iterator[Violation]:
    ttl = facts.flow.spec.ttl_seconds_after_finished
    if ttl is not None and not 0 <= ttl <= MAX_TTL:
        detail = f"0 to {MAX_TTL} seconds (68 years); leave it out to keep the flow"
        yield Violation("spec.ttlSecondsAfterFinished", Reason.INVALID, ttl, detail)


TIMEOUT_AND_RETRY_RULES = (
    Group[Rule](
        lambda facts: facts.has_options,
        (
            timeouts_are_positive_durations,
            retries_are_limited,
            backoffs_are_durations,
            backoffs_grow,
            backoffs_have_room_to_grow,
            ttl_is_a_number_of_seconds,
        ),
    ),
)


def _backoffs(facts: FlowFacts) -> Iterator[tuple[str, Backoff]]:
    for i, step in facts.steps_with_options:
        if step.retry is not None and step.retry.backoff is not None:
            yield f"{facts.path(i)}.retry.backoff", step.retry.backoff


def _duration_fault(text: str, *, zero: str = "") -> str:
    try:
        return "" if parse_duration(text) else zero
    except ValueError as error:
        return str(error)
