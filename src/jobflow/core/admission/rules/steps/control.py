"""Rules of switch, loops, daemon, finally and limits."""

from collections.abc import Iterator

from jobflow.api.flow.control import FailurePolicy, to_number
from jobflow.core.admission.analysis.flow_facts import FlowFacts
from jobflow.core.admission.rule import Group, Rule, flow_with_options
from jobflow.core.limits import MAX_INT32, MAX_RUNS
from jobflow.core.suggest import list_supported
from jobflow.core.violations import Reason, Violation

MAX_CASES = 100
"""Cases of a switch: each is evaluated until one holds, and each patch is checked. A step decides
once, before its first job, so its cases do not see `item`."""
_FAILURE_POLICIES = frozenset({None, *FailurePolicy})
_REDUCE_RUNS = "let each job do several, or split the step"


def switches_have_cases(facts: FlowFacts) -> Iterator[Violation]:
    for i, step in facts.steps_with_options:
        if step.switch is None:
            continue
        path = f"{facts.path(i)}.switch"
        if not step.switch:
            detail = "a switch has at least one case; without any the step would never run"
            yield Violation(path, Reason.REQUIRED, None, detail)
        elif (count := len(step.switch)) > MAX_CASES:
            detail = f"{count} cases, but a switch has at most {MAX_CASES}; split the step"
            yield Violation(path, Reason.TOO_MANY, count, detail)


def default_cases_come_last(facts: FlowFacts) -> Iterator[Violation]:
    for i, step in facts.steps_with_options:
        cases = step.switch or ()
        default = next((at for at, case in enumerate(cases) if case.when is None), len(cases))
        if default < len(cases) - 1:
            detail = (
                f"switch[{default}] before it has no when, so it is the default and this case is "
                "never taken; put the default last"
            )
            path = f"{facts.path(i)}.switch[{default + 1}]"
            yield Violation(path, Reason.FORBIDDEN, None, detail)


def items_have_a_source(facts: FlowFacts) -> Iterator[Violation]:
    for i, step in facts.steps_with_options:
        if (each := step.for_each) is None or step.matches_items:
            continue
        if each.items is None and each.from_ is None and each.count is None:
            detail = "set the source of the items: items (a list), from (CEL) or count (a number)"
            yield Violation(f"{facts.path(i)}.forEach", Reason.REQUIRED, None, detail)


def items_are_not_too_many(facts: FlowFacts) -> Iterator[Violation]:
    for i, step in facts.steps_with_options:
        if (each := step.for_each) is None:
            continue
        path = f"{facts.path(i)}.forEach"
        if (items := len(each.items or ())) > MAX_RUNS:
            detail = f"{items:,} items, but forEach has at most {MAX_RUNS:,}; {_REDUCE_RUNS}"
            yield Violation(f"{path}.items", Reason.TOO_MANY, items, detail)
        count = to_number(each.count)
        if count is not None and not 0 <= count <= MAX_RUNS:
            detail = f"a number of items from 0 to {MAX_RUNS:,}"
            detail += f"; {_REDUCE_RUNS}" if count > MAX_RUNS else ""
            yield Violation(f"{path}.count", Reason.INVALID, count, detail)


def repeats_are_bounded(facts: FlowFacts) -> Iterator[Violation]:
    for i, step in facts.steps_with_options:
        most = to_number(step.repeat.max) if step.repeat is not None else None
        if most is not None and not 1 <= most <= MAX_RUNS:
            detail = f"a number of runs from 1 to {MAX_RUNS:,}"
            yield Violation(f"{facts.path(i)}.repeat.max", Reason.INVALID, most, detail)


def parallelism_is_positive(facts: FlowFacts) -> Iterator[Violation]:
    limits = [("spec.parallelism", facts.flow.spec.parallelism)]
    limits += [
        (f"{facts.path(i)}.forEach.parallelism", step.for_each.parallelism)
        for i, step in facts.steps_with_options
        if step.for_each is not None
    ]
    for path, written in limits:
        if (limit := to_number(written)) is not None and not 1 <= limit <= MAX_INT32:
            least = "at least 1 job at once" if limit < 1 else f"at most {MAX_INT32} jobs at once"
            detail = f"{least}; leave it out for no limit"
            yield Violation(path, Reason.INVALID, limit, detail)


def daemons_leave_room(facts: FlowFacts) -> Iterator[Violation]:
    """A daemon takes a place until all other steps have finished."""
    limit = to_number(facts.flow.spec.parallelism)
    daemons = sum(bool(step.daemon) for i, step in facts.steps_with_options if i < len(facts.flows))
    if limit is not None and 1 <= limit <= daemons:
        which = "the daemon takes" if daemons == 1 else f"the {daemons} daemons take"
        detail = f"{which} all the room, so the other steps could not run; at least {daemons + 1}"
        yield Violation("spec.parallelism", Reason.INVALID, limit, detail)


def failure_policy_is_known(facts: FlowFacts) -> Iterator[Violation]:
    if (policy := facts.flow.spec.failure_policy) not in _FAILURE_POLICIES:
        detail = list_supported(policy, FailurePolicy)
        yield Violation("spec.failurePolicy", Reason.NOT_SUPPORTED, policy, detail)


def finally_steps_end(facts: FlowFacts) -> Iterator[Violation]:
    for at, step in enumerate(facts.finally_steps):
        if step.daemon:
            detail = "the flow ends when the steps of finally finish, and a daemon never does"
            yield Violation(f"spec.finally[{at}].daemon", Reason.FORBIDDEN, None, detail)


CONTROL_RULES = (
    Group[Rule](
        flow_with_options,
        (
            switches_have_cases,
            default_cases_come_last,
            items_have_a_source,
            items_are_not_too_many,
            repeats_are_bounded,
            parallelism_is_positive,
            daemons_leave_room,
            failure_policy_is_known,
            finally_steps_end,
        ),
    ),
)
