"""The rules of what steers a flow: cases, loops, retries, time, failure, services and the end.

Source: DESIGN §1, §2 and §4; the bounds are explained in docs/decisions/bounds-of-control.md.
Expressions have rules of their own (`expression_rules`), and so have names (`clash_rules`).
"""

from __future__ import annotations

from collections.abc import Iterator

from jobflow.api.control import Backoff, FailurePolicy
from jobflow.api.duration import parse_duration
from jobflow.core.admission.analysis.flow_facts import FlowFacts
from jobflow.core.admission.analysis.job_counts import MOST_RETRIES
from jobflow.core.admission.rule import Group, Rule
from jobflow.core.limits import MAX_RUNS, MAX_TTL
from jobflow.core.suggest import list_supported
from jobflow.core.violations import Reason, Violation

MOST_CASES = 100
"""Of a switch: each is asked until one holds, and what it makes of its template is checked."""
_FAILURE_POLICIES = frozenset({None, *FailurePolicy})


def switches_have_cases(facts: FlowFacts) -> Iterator[Violation]:
    for i, step in facts.controlled_steps:
        if step.switch is None:
            continue
        path = f"{facts.path(i)}.switch"
        if not step.switch:
            detail = "a switch has at least one case; without any the step would never run"
            yield Violation(path, Reason.REQUIRED, None, detail)
        elif (count := len(step.switch)) > MOST_CASES:
            detail = f"{count} cases, but a switch has at most {MOST_CASES}; split the step"
            yield Violation(path, Reason.TOO_MANY, count, detail)


def switches_choose_the_template(facts: FlowFacts) -> Iterator[Violation]:
    for i, step in facts.controlled_steps:
        if step.switch is not None and step.template:
            detail = (
                "the cases of switch say which template is run; a case without one runs the "
                "template that is named like the step"
            )
            yield Violation(f"{facts.path(i)}.template", Reason.FORBIDDEN, None, detail)


def default_cases_come_last(facts: FlowFacts) -> Iterator[Violation]:
    """A case without `when` always holds."""
    for i, step in facts.controlled_steps:
        cases = step.switch or ()
        default = next((at for at, case in enumerate(cases) if case.when is None), len(cases))
        if default < len(cases) - 1:
            detail = (
                f"switch[{default}] before it has no when, so it is the default and this case is "
                "never taken; put the default last"
            )
            path = f"{facts.path(i)}.switch[{default + 1}]"
            yield Violation(path, Reason.FORBIDDEN, None, detail)


def items_are_given_once(facts: FlowFacts) -> Iterator[Violation]:
    for i, step in facts.controlled_steps:
        if (each := step.for_each) is None:
            continue
        given = {"items": each.items, "from": each.from_, "count": each.count}
        fields = [field for field, value in given.items() if value is not None]
        path = f"{facts.path(i)}.forEach"
        if not fields:
            detail = "say what it goes over: items (a list), from (CEL) or count (a number)"
            yield Violation(path, Reason.REQUIRED, None, detail)
        for field in fields[1:]:
            detail = f"excludes {fields[0]}, which is set too; keep one of items, from and count"
            yield Violation(f"{path}.{field}", Reason.FORBIDDEN, None, detail)


def items_are_not_too_many(facts: FlowFacts) -> Iterator[Violation]:
    for i, step in facts.controlled_steps:
        if (each := step.for_each) is None:
            continue
        path = f"{facts.path(i)}.forEach"
        if (items := len(each.items or ())) > MAX_RUNS:
            detail = f"{items:,} items, but forEach goes over at most {MAX_RUNS:,}; {_SPLIT}"
            yield Violation(f"{path}.items", Reason.TOO_MANY, items, detail)
        if each.count is not None and not 0 <= each.count <= MAX_RUNS:
            detail = f"a number of items from 0 to {MAX_RUNS:,}"
            detail += f"; {_SPLIT}" if each.count > MAX_RUNS else ""
            yield Violation(f"{path}.count", Reason.INVALID, each.count, detail)


_SPLIT = "let each job do several, or split the step"


def loops_are_of_one_kind(facts: FlowFacts) -> Iterator[Violation]:
    for i, step in facts.controlled_steps:
        if step.for_each is not None and step.repeat is not None:
            detail = (
                "excludes forEach: a step has its items, or runs again until an expression holds; "
                "for both, repeat a step behind this one"
            )
            yield Violation(f"{facts.path(i)}.repeat", Reason.FORBIDDEN, None, detail)


def repeats_come_to_an_end(facts: FlowFacts) -> Iterator[Violation]:
    for i, step in facts.controlled_steps:
        if (repeat := step.repeat) is None:
            continue
        path = f"{facts.path(i)}.repeat"
        if repeat.until is None:
            detail = "say in CEL when it has been repeated enough"
            yield Violation(f"{path}.until", Reason.REQUIRED, None, detail)
        if repeat.max is None:
            detail = f"say how often it is run at most, up to {MAX_RUNS:,}; then it has failed"
            yield Violation(f"{path}.max", Reason.REQUIRED, None, detail)
        elif not 1 <= repeat.max <= MAX_RUNS:
            detail = f"a number of runs from 1 to {MAX_RUNS:,}"
            yield Violation(f"{path}.max", Reason.INVALID, repeat.max, detail)


def retries_are_limited(facts: FlowFacts) -> Iterator[Violation]:
    for i, step in facts.controlled_steps:
        if step.retry is None:
            continue
        limit, path = step.retry.limit, f"{facts.path(i)}.retry.limit"
        if limit is None:
            detail = "say how many attempts there are after the first"
            yield Violation(path, Reason.REQUIRED, None, detail)
        elif not 0 <= limit <= MOST_RETRIES:
            detail = f"a number of further attempts from 0 to {MOST_RETRIES}"
            yield Violation(path, Reason.INVALID, limit, detail)


def parallelism_leaves_room(facts: FlowFacts) -> Iterator[Violation]:
    at_once = [("spec.parallelism", facts.flow.spec.parallelism)]
    at_once += [
        (f"{facts.path(i)}.forEach.parallelism", step.for_each.parallelism)
        for i, step in facts.controlled_steps
        if step.for_each is not None
    ]
    for path, most in at_once:
        if most is not None and most < 1:
            detail = "at least 1 job at once; leave it out for no limit"
            yield Violation(path, Reason.INVALID, most, detail)


def daemons_leave_room(facts: FlowFacts) -> Iterator[Violation]:
    """A service holds its place until all other steps are over."""
    most = facts.flow.spec.parallelism
    daemons = sum(bool(step.daemon) for i, step in facts.controlled_steps if i < len(facts.flows))
    if most is not None and 1 <= most <= daemons:
        which = "the daemon takes" if daemons == 1 else f"the {daemons} daemons take"
        detail = f"{which} all the room, so the other steps could not run; at least {daemons + 1}"
        yield Violation("spec.parallelism", Reason.INVALID, most, detail)


def daemons_are_services(facts: FlowFacts) -> Iterator[Violation]:
    """A loop waits for the end of its runs, and finally for the end of its steps."""
    for i, step in facts.controlled_steps:
        if not step.daemon:
            continue
        path = f"{facts.path(i)}.daemon"
        if i >= len(facts.flows):
            detail = "a step of finally ends the flow with its own end, and a daemon has none"
            yield Violation(path, Reason.FORBIDDEN, None, detail)
        for field, loop in (("forEach", step.for_each), ("repeat", step.repeat)):
            if loop is not None:
                detail = f"excludes {field}: a daemon is one job, which runs until the flow is over"
                yield Violation(path, Reason.FORBIDDEN, None, detail)


def failure_policy_is_known(facts: FlowFacts) -> Iterator[Violation]:
    if (policy := facts.flow.spec.failure_policy) not in _FAILURE_POLICIES:
        detail = list_supported(policy, FailurePolicy)
        yield Violation("spec.failurePolicy", Reason.NOT_SUPPORTED, policy, detail)


def finally_waits_for_all(facts: FlowFacts) -> Iterator[Violation]:
    for at, step in enumerate(facts.finally_steps):
        if step.depends_on is not None:
            detail = "the steps of finally start together, once all others are over; take it out"
            yield Violation(f"spec.finally[{at}].dependsOn", Reason.FORBIDDEN, None, detail)


def nobody_waits_for_finally(facts: FlowFacts) -> Iterator[Violation]:
    last = {step.name for step in facts.finally_steps}
    for i, at in facts.graph.unknown if last else ():
        target = facts.steps[i].targets[at]
        if target in last:
            detail = "a step of finally, which starts when this one is over; take this target out"
            path = f"{facts.path(i)}.dependsOn.targets[{at}]"
            yield Violation(path, Reason.INVALID, target, detail)


MOST_FACTOR = 100
"""Of a backoff. With more the second pause is the longest already."""
_FIRST, _LONGEST = "1s", "5m"
"""What a backoff without `duration` or `max` has."""


def timeouts_are_durations(facts: FlowFacts) -> Iterator[Violation]:
    timeouts = [("spec.timeout", facts.flow.spec.timeout)]
    timeouts += [(f"{facts.path(i)}.timeout", step.timeout) for i, step in facts.controlled_steps]
    for path, text in timeouts:
        if text is not None:
            yield from _misread(path, text)
            if _seconds(text) == 0:
                detail = "a timeout is longer than nothing; leave it out for none"
                yield Violation(path, Reason.INVALID, text, detail)


def backoffs_are_durations(facts: FlowFacts) -> Iterator[Violation]:
    for path, backoff in _backoffs(facts):
        for field, text in (("duration", backoff.duration), ("max", backoff.max)):
            if text is not None:
                yield from _misread(f"{path}.{field}", text)


def backoffs_grow(facts: FlowFacts) -> Iterator[Violation]:
    for path, backoff in _backoffs(facts):
        if (factor := backoff.factor) is not None and not 1 <= factor <= MOST_FACTOR:
            detail = f"each pause is 1 to {MOST_FACTOR} times as long as the one before"
            yield Violation(f"{path}.factor", Reason.INVALID, factor, detail)


def backoffs_have_room_to_grow(facts: FlowFacts) -> Iterator[Violation]:
    for path, backoff in _backoffs(facts):
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


def ttl_is_a_number_of_seconds(facts: FlowFacts) -> Iterator[Violation]:
    ttl = facts.flow.spec.ttl_seconds_after_finished
    if ttl is not None and not 0 <= ttl <= MAX_TTL:
        detail = f"0 to {MAX_TTL} seconds (68 years); leave it out to keep the flow"
        yield Violation("spec.ttlSecondsAfterFinished", Reason.INVALID, ttl, detail)


def _backoffs(facts: FlowFacts) -> Iterator[tuple[str, Backoff]]:
    for i, step in facts.controlled_steps:
        if step.retry is not None and step.retry.backoff is not None:
            yield f"{facts.path(i)}.retry.backoff", step.retry.backoff


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

CONTROL_RULES = (
    Group[Rule](
        lambda facts: facts.controlled,
        (
            switches_have_cases,
            switches_choose_the_template,
            default_cases_come_last,
            items_are_given_once,
            items_are_not_too_many,
            loops_are_of_one_kind,
            repeats_come_to_an_end,
            retries_are_limited,
            parallelism_leaves_room,
            daemons_leave_room,
            daemons_are_services,
            failure_policy_is_known,
            finally_waits_for_all,
            nobody_waits_for_finally,
            *TIME_RULES,
        ),
    ),
)
