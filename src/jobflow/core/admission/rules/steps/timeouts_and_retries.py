"""Rules of timeouts, retries and backoff, and of the ttl."""

from collections.abc import Iterator

from jobflow.api.duration import parse_duration
from jobflow.api.flow.control import Backoff, to_number
from jobflow.core.admission.analysis.flow_facts import FlowFacts
from jobflow.core.admission.analysis.jobs.job_counts import MOST_DISRUPTIONS, MOST_RETRIES
from jobflow.core.admission.rule import Group, Rule, flow_with_options
from jobflow.core.limits import MAX_TTL
from jobflow.core.violations import Reason, Violation

MAX_FACTOR = 100
"""Factor of a backoff. With a larger one the second pause is the longest already."""
_DEFAULT_DURATION, _DEFAULT_MAX = "1s", "5m"
_ZERO_TIMEOUT = "a timeout is longer than 0s; leave it out for no timeout"


def timeouts_are_positive_durations(facts: FlowFacts) -> Iterator[Violation]:
    timeouts = [("spec.timeout", facts.flow.spec.timeout)]
    timeouts += [(f"{facts.path(i)}.timeout", step.timeout) for i, step in facts.steps_with_options]
    timeouts += [(f"{facts.path(i)}.approval.timeout", each.timeout) for i, each in facts.approvals]
    for path, text in timeouts:
        if text is None or "$(" in text:
            continue  # a reference without a value, which has a fault of its own
        if detail := _duration_fault(text, zero=_ZERO_TIMEOUT):
            yield Violation(path, Reason.INVALID, text, detail)


def retries_are_limited(facts: FlowFacts) -> Iterator[Violation]:
    for i, step in facts.steps_with_options:
        limit = to_number(step.retry.limit) if step.retry is not None else None
        if limit is not None and not 0 <= limit <= MOST_RETRIES:
            path = f"{facts.path(i)}.retry.limit"
            detail = f"a number of further attempts from 0 to {MOST_RETRIES}"
            yield Violation(path, Reason.INVALID, limit, detail)


def disruptions_are_limited(facts: FlowFacts) -> Iterator[Violation]:
    for i, step in facts.steps_with_options:
        most = step.retry.disruptions if step.retry is not None else None
        if most is not None and not 0 <= most <= MOST_DISRUPTIONS:
            path = f"{facts.path(i)}.retry.disruptions"
            detail = f"a number of disrupted attempts from 0 to {MOST_DISRUPTIONS}"
            yield Violation(path, Reason.INVALID, most, detail)


def pauses_are_durations(facts: FlowFacts) -> Iterator[Violation]:
    for i, step in facts.steps_with_options:
        text = step.repeat.pause if step.repeat is not None else None
        if text is not None and (detail := _duration_fault(text)):
            yield Violation(f"{facts.path(i)}.repeat.pause", Reason.INVALID, text, detail)


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


def ttls_are_numbers_of_seconds(facts: FlowFacts) -> Iterator[Violation]:
    spec = facts.flow.spec
    ttls = {
        "Finished": spec.ttl_seconds_after_finished,
        "Succeeded": spec.ttl_seconds_after_succeeded,
        "Failed": spec.ttl_seconds_after_failed,
    }
    for end, ttl in ttls.items():
        if ttl is not None and not 0 <= ttl <= MAX_TTL:
            detail = f"0 to {MAX_TTL} seconds (68 years); leave it out to keep the flow"
            yield Violation(f"spec.ttlSecondsAfter{end}", Reason.INVALID, ttl, detail)


TIMEOUT_AND_RETRY_RULES = (
    Group[Rule](
        flow_with_options,
        (
            timeouts_are_positive_durations,
            retries_are_limited,
            disruptions_are_limited,
            pauses_are_durations,
            backoffs_are_durations,
            backoffs_grow,
            backoffs_have_room_to_grow,
            ttls_are_numbers_of_seconds,
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
