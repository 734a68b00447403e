"""Rules of switch, loops, limits, timeouts, retries, the ttl, concurrency groups, and reuse."""

import re
from collections.abc import Iterator

import msgspec

from jobflow.api.duration import parse_duration
from jobflow.api.flow.control import (
    Backoff,
    Concurrency,
    ConcurrencyPolicy,
    FailurePolicy,
    ReusePolicy,
    StepConcurrency,
    to_number,
)
from jobflow.api.flow.traits import Setting, find_set
from jobflow.core.admission.analysis.flow_facts import FlowFacts
from jobflow.core.admission.analysis.jobs.job_counts import MOST_DISRUPTIONS, MOST_RETRIES
from jobflow.core.admission.object_names import name_violations, word_violations
from jobflow.core.admission.rule import RuleGroup, Rules, flow_with_options
from jobflow.core.admission.rules.expressions import faults_before_start
from jobflow.core.cel.expression import EvaluationFailure
from jobflow.core.limits import MAX_INT32, MAX_RUNS
from jobflow.core.spec.concurrency import resolve_group
from jobflow.core.spec.items import count_of, get_items
from jobflow.core.text import format_count
from jobflow.core.violations import Reason, Violation

MAX_CASES = 100
"""Cases of a switch: each is evaluated until one holds, and each patch is checked. A step decides
once, before its first job, so its cases do not see `item`."""
MAX_FACTOR = 100
"""Factor of a backoff. With a larger one the second pause is the longest already."""
_DEFAULT_DURATION, _DEFAULT_MAX = "1s", "5m"
_ZERO_TIMEOUT = "a timeout is longer than 0s; leave it out for no timeout"
MAX_GROUP = 253
"""Characters of the name of a group."""
_UID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
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


def attempts_and_runs_are_bounded(facts: FlowFacts) -> Iterator[Violation]:
    for i, step in facts.steps_with_options:
        bounds: list[tuple[str, int | None, int, int, str]] = []
        if (retry := step.retry) is not None:
            limit = to_number(retry.limit)
            bounds = [
                ("retry.limit", limit, 0, MOST_RETRIES, "further attempts"),
                ("retry.disruptions", retry.disruptions, 0, MOST_DISRUPTIONS, "disrupted attempts"),
            ]
        if step.repeat is not None:
            bounds.append(("repeat.max", to_number(step.repeat.max), 1, MAX_RUNS, "runs"))
        for field, number, least, most, what in bounds:
            if number is not None and not least <= number <= most:
                detail = f"a number of {what} from {least} to {most:,}"
                yield Violation(f"{facts.path(i)}.{field}", Reason.INVALID, number, detail)


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


def tolerances_are_of_the_items(facts: FlowFacts) -> Iterator[Violation]:
    for i, step in facts.steps_with_options:
        if not step.tolerates_items or (each := step.for_each) is None:
            continue
        path = f"{facts.path(i)}.forEach"
        if step.continue_on_failure:
            detail = (
                "it tolerates every failure; remove it, or maxFailed, minSuccess and until here"
            )
            yield Violation(f"{facts.path(i)}.continueOnFailure", Reason.FORBIDDEN, None, detail)
        items = get_items(step, None)
        most = MAX_RUNS if items is None else len(items)
        for name, share, least in (
            ("maxFailed", each.max_failed, 0),
            ("minSuccess", each.min_success, 1),
        ):
            at = f"{path}.{name}"
            if isinstance(share, str) and (count := count_of(share, 100, up=True)) is not None:
                if not least <= count <= 100:
                    detail = f"a percentage of the items from {least}% to 100%"
                    yield Violation(at, Reason.INVALID, share, detail)
            elif isinstance(share, int) and not least <= share <= MAX_RUNS:
                detail = f"a number of items from {least} to {MAX_RUNS:,}, or a percentage"
                yield Violation(at, Reason.INVALID, share, detail)
            elif name == "minSuccess" and isinstance(share, int) and share > most > 0:
                detail = (
                    f"the step has {format_count(most, 'item')}, of which so many can not complete"
                )
                yield Violation(at, Reason.INVALID, share, f"{detail}; at most {most}")


def daemons_leave_room(facts: FlowFacts) -> Iterator[Violation]:
    # a daemon takes a place until all other steps have finished
    limit = to_number(facts.flow.spec.parallelism)
    daemons = sum(bool(step.daemon) for i, step in facts.steps_with_options if i < len(facts.flows))
    if limit is not None and 1 <= limit <= daemons:
        which = "the daemon takes" if daemons == 1 else f"the {daemons} daemons take"
        detail = f"{which} all the room, so the other steps could not run; at least {daemons + 1}"
        yield Violation("spec.parallelism", Reason.INVALID, limit, detail)


def policies_are_known(facts: FlowFacts) -> Iterator[Violation]:
    spec = facts.flow.spec
    yield from word_violations("spec.failurePolicy", spec.failure_policy, FailurePolicy)
    if spec.concurrency is not None:
        policy = spec.concurrency.policy
        yield from word_violations("spec.concurrency.policy", policy, ConcurrencyPolicy)


def finally_steps_end(facts: FlowFacts) -> Iterator[Violation]:
    for at, step in enumerate(facts.finally_steps):
        if step.daemon:
            detail = "the flow ends when the steps of finally finish, and a daemon never does"
            yield Violation(f"spec.finally[{at}].daemon", Reason.FORBIDDEN, None, detail)


def timeouts_are_positive_durations(facts: FlowFacts) -> Iterator[Violation]:
    settings = [*find_set(facts.flow.spec, Setting, "spec.")]
    for i, step in facts.steps_with_options:
        settings += find_set(step, Setting, f"{facts.path(i)}.")
    for path, setting, text, *_ in settings:
        if not setting.is_time or "$(" in text:
            continue  # a reference without a value, which has a fault of its own
        if detail := _duration_fault(text, zero=_ZERO_TIMEOUT):
            yield Violation(path, Reason.INVALID, text, detail)


def pauses_are_durations(facts: FlowFacts) -> Iterator[Violation]:
    pauses = [
        (f"{facts.path(i)}.repeat.pause", step.repeat.pause)
        for i, step in facts.steps_with_options
        if step.repeat is not None
    ]
    for path, backoff in _backoffs(facts):
        pauses += [(f"{path}.duration", backoff.duration), (f"{path}.max", backoff.max)]
    for path, text in pauses:
        if text is not None and (detail := _duration_fault(text)):
            yield Violation(path, Reason.INVALID, text, detail)


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
        if ttl is not None and not 0 <= ttl <= MAX_INT32:
            detail = f"0 to {MAX_INT32} seconds (68 years); leave it out to keep the flow"
            yield Violation(f"spec.ttlSecondsAfter{end}", Reason.INVALID, ttl, detail)


def _backoffs(facts: FlowFacts) -> Iterator[tuple[str, Backoff]]:
    for i, step in facts.steps_with_options:
        if step.retry is not None and step.retry.backoff is not None:
            yield f"{facts.path(i)}.retry.backoff", step.retry.backoff


def _duration_fault(text: str, *, zero: str = "") -> str:
    try:
        return "" if parse_duration(text) else zero
    except ValueError as error:
        return str(error)


def groups_have_names(facts: FlowFacts) -> Iterator[Violation]:
    for at, concurrency in facts.groups:
        path, whose = f"{at}.group", "flow" if isinstance(concurrency, Concurrency) else "step"
        detail = f"the group of a {whose} is known before it starts: only params have a value"
        if not (written := concurrency.group):
            continue  # the name is Required
        if unknown := [*faults_before_start(facts, written, path, detail)]:
            yield from unknown
            continue
        found = resolve_group(facts.flow, concurrency)
        if isinstance(found, EvaluationFailure):
            yield Violation(path, Reason.INVALID, written, found.message)
            continue
        name = found if isinstance(found, str) else msgspec.json.encode(found).decode()
        if not name:
            yield Violation(path, Reason.INVALID, written, "its references make an empty name")
        elif len(name) > MAX_GROUP:
            detail = f"{len(name)} characters, but the name of a group has at most {MAX_GROUP}"
            yield Violation(path, Reason.TOO_LONG, None, detail)


def groups_have_places(facts: FlowFacts) -> Iterator[Violation]:
    for path, concurrency in facts.groups:
        limit = concurrency.limit
        slots = concurrency.slots if isinstance(concurrency, StepConcurrency) else None
        for name, number in (("limit", limit), ("slots", slots)):
            if number is not None and number < 1:
                detail = "at least 1; leave it out for 1"
                yield Violation(f"{path}.{name}", Reason.INVALID, number, detail)
        if slots is not None and slots > max(1, limit or 1):
            detail = f"the step never gets them, because its limit is {limit or 1}; raise the limit"
            yield Violation(f"{path}.slots", Reason.INVALID, slots, detail)


def places_are_taken_once(facts: FlowFacts) -> Iterator[Violation]:
    # who holds a place waits for no other one, so that nobody waits in a circle
    for child in facts.children:
        holder = facts.steps[child.step]
        if holder.concurrency is None or child.facts is None:
            continue
        detail = (
            f"step {holder.name}, which runs this flow, holds places of a group already, and flows "
            "could wait for each other's places; set concurrency on one of both"
        )
        for path in _steps_with_places(child.facts):
            yield Violation(child.place(path), Reason.FORBIDDEN, None, detail)


def _steps_with_places(facts: FlowFacts) -> Iterator[str]:
    yield from (path for path, _ in facts.groups if not path.startswith("spec.concurrency"))
    for child in facts.children:
        if child.facts is not None:
            yield from map(child.place, _steps_with_places(child.facts))


def reuse_names_another_flow(facts: FlowFacts) -> Iterator[Violation]:
    reuse, flow = facts.flow.spec.reuse, facts.flow
    # the controller names the flow that a child flow reuses
    if reuse is None or flow.is_child:
        return
    if reuse.flow and reuse.flow == flow.metadata.name:
        detail = "a flow cannot reuse itself; name an earlier flow of this namespace"
        yield Violation("spec.reuse.flow", Reason.INVALID, reuse.flow, detail)
    elif reuse.flow:
        yield from name_violations("spec.reuse.flow", reuse.flow)
    if reuse.uid is not None and not _UID.fullmatch(reuse.uid):
        detail = "the UID of a flow is its metadata.uid, a UUID in lower case; leave it out for any"
        yield Violation("spec.reuse.uid", Reason.INVALID, reuse.uid, detail)


def reuse_policies_are_known(facts: FlowFacts) -> Iterator[Violation]:
    for i, step in facts.steps_with_options:
        if (policy := step.reuse_policy) is None:
            continue
        path = f"{facts.path(i)}.reusePolicy"
        if i >= len(facts.flows):
            detail = "steps of finally run in every flow, so their results are never reused"
            yield Violation(path, Reason.FORBIDDEN, None, f"{detail}; remove it")
        else:
            yield from word_violations(path, policy, ReusePolicy)


RULES: Rules = (
    RuleGroup(
        flow_with_options,
        (
            switches_have_cases,
            default_cases_come_last,
            items_have_a_source,
            items_are_not_too_many,
            attempts_and_runs_are_bounded,
            parallelism_is_positive,
            tolerances_are_of_the_items,
            daemons_leave_room,
            policies_are_known,
            finally_steps_end,
            timeouts_are_positive_durations,
            pauses_are_durations,
            backoffs_grow,
            backoffs_have_room_to_grow,
            ttls_are_numbers_of_seconds,
            reuse_policies_are_known,
        ),
    ),
    RuleGroup(lambda facts: facts.flow.spec.reuse, (reuse_names_another_flow,)),
    RuleGroup(
        lambda facts: facts.groups,
        (groups_have_names, groups_have_places, places_are_taken_once),
    ),
)
