"""Rules of names, templates, targets and jobRetainPolicy, and of the options of dependsOn.

A flow that can reach Succeed is admitted, so a target that is named twice is no fault. Why single
items and daemons have these rules: docs/decisions/matching-items.md, policies-of-a-flow.md.
"""

from collections.abc import Iterator
from typing import NamedTuple

from jobflow.api.flow.jobflow import RetainPolicy
from jobflow.api.flow.step import Condition, DependsOn, ItemDependency, Step, Strategy
from jobflow.core import suggest
from jobflow.core.admission.analysis.flow_facts import FlowFacts
from jobflow.core.admission.object_names import (
    all_names,
    name_violations,
    object_name_violations,
    word_violations,
)
from jobflow.core.admission.rule import RuleGroup, Rules, every_flow
from jobflow.core.spec.graph import Graph
from jobflow.core.spec.readiness import awaits_end, get_probe
from jobflow.core.violations import Reason, Violation, join_path

_RETAIN_POLICIES = frozenset({None, *RetainPolicy})
_MAX_SHOWN_OF_CYCLE = 8


def flow_has_a_name(facts: FlowFacts) -> Iterator[Violation]:
    yield from object_name_violations(facts.flow.metadata)


def flow_has_steps(facts: FlowFacts) -> Iterator[Violation]:
    if not facts.flows:
        yield Violation("spec.flows", Reason.REQUIRED, None, "a flow has at least one step")


def steps_have_names(facts: FlowFacts) -> Iterator[Violation]:
    # a step's name is part of its vcjob's name and, by default, the name of its JobTemplate
    if all_names(facts.names):
        return
    for i, name in enumerate(facts.names):
        path = f"{facts.path(i)}.name"
        if name:
            yield from name_violations(path, name)
        else:
            detail = "a step has a name, which is also its JobTemplate's unless template is set"
            yield Violation(path, Reason.REQUIRED, name, detail)


def step_names_are_unique(facts: FlowFacts) -> Iterator[Violation]:
    # steps of `finally` share the names of the others
    first = facts.index
    if len(first) == len(facts.names):
        return
    for i, name in enumerate(facts.names):
        if first[name] != i and name:
            detail = (
                f"already the name of {facts.path(first[name])}; give each step its own name, "
                "and set template if its JobTemplate has another name"
            )
            yield Violation(f"{facts.path(i)}.name", Reason.DUPLICATE, name, detail)


def templates_have_names(facts: FlowFacts) -> Iterator[Violation]:
    if not facts.cases and all_names(facts.templates):
        return
    for i, step in enumerate(facts.steps):
        if step.template:
            yield from name_violations(f"{facts.path(i)}.template", step.template)
    for i, at, case in facts.cases:
        if case.template:
            yield from name_violations(f"{facts.path(i)}.switch[{at}].template", case.template)


def targets_are_steps(facts: FlowFacts) -> Iterator[Violation]:
    for first, graph in facts.unsound_graphs:
        suggester = suggest.Suggester(graph.names)
        # steps of finally start after those of flows, so dependencies cross neither way
        others = facts.graph if first else facts.finally_graph
        for i, at in graph.unknown:
            target = facts.steps[first + i].targets[at]
            if target not in others.index:
                guess = suggester.nearest(target)
                meant = suggest.did_you_mean(guess if guess != graph.names[i] else None)
                has_curly = not suggest.CURLY_QUOTES.isdisjoint(target)
                curly = suggest.CURLY_QUOTES_ARE_PART if has_curly else ""
                detail = "no such step" + curly + meant
            elif first:
                detail = (
                    "a step of flows, and finally starts when all of these have finished; remove "
                    f'this target; to run only if it failed: when: steps["{target}"].phase == '
                    '"Failed"'
                )
            else:
                detail = "a step of finally, which starts after this one; remove this target"
            path = f"{facts.path(first + i)}.dependsOn.targets[{at}]"
            yield Violation(path, Reason.INVALID, target, detail)


def targets_are_other_steps(facts: FlowFacts) -> Iterator[Violation]:
    for first, graph in facts.unsound_graphs:
        for i, at in graph.own:
            path = f"{facts.path(first + i)}.dependsOn.targets[{at}]"
            detail = "a step cannot wait for itself; remove this target"
            yield Violation(path, Reason.INVALID, graph.names[i], detail)


def dependencies_have_an_order(facts: FlowFacts) -> Iterator[Violation]:
    """Reports one cycle of each group of steps that wait for each other, in running order."""
    for first, graph in facts.unsound_graphs:
        for cycle in graph.cycles:
            step, last = first + cycle[0], graph.names[cycle[-2]]
            at = facts.steps[step].targets.index(last)
            detail = (
                f"these steps wait for each other: {in_running_order(graph.names, cycle)}; "
                "remove one of these dependencies"
            )
            path = f"{facts.path(step)}.dependsOn.targets[{at}]"
            yield Violation(path, Reason.INVALID, last, detail)


def in_running_order(names: list[str], cycle: list[int]) -> str:
    """Return `a -> b -> c -> a`; of a long cycle the beginning and the end."""
    shown = [names[step] for step in cycle]
    if len(shown) > _MAX_SHOWN_OF_CYCLE:
        left_out = len(shown) - _MAX_SHOWN_OF_CYCLE
        shown[5:-3] = [f"({left_out} more)"]
    return " -> ".join(shown)


def retain_policy_is_known(facts: FlowFacts) -> Iterator[Violation]:
    # every review asks this, and a set answers faster than the enum
    if (policy := facts.flow.spec.job_retain_policy) not in _RETAIN_POLICIES:
        yield from word_violations("spec.jobRetainPolicy", policy, RetainPolicy)


PLAIN_RULES: Rules = (
    RuleGroup(
        every_flow,
        (
            flow_has_a_name,
            flow_has_steps,
            steps_have_names,
            step_names_are_unique,
            templates_have_names,
            retain_policy_is_known,
        ),
    ),
    RuleGroup(
        lambda facts: facts.unsound_graphs,
        (targets_are_steps, targets_are_other_steps, dependencies_have_an_order),
    ),
)


_END = "end of "
"""Before the name of a daemon. No name of a step has blanks."""


def strategies_and_conditions_are_known(facts: FlowFacts) -> Iterator[Violation]:
    for i, depends_on in facts.dependencies_with_options:
        path = f"{facts.path(i)}.dependsOn"
        yield from word_violations(f"{path}.strategy", depends_on.strategy, Strategy)
        yield from word_violations(f"{path}.condition", depends_on.condition, Condition)


def conditions_are_of_targets(facts: FlowFacts) -> Iterator[Violation]:
    suggester = suggest.Suggester(facts.names)
    for i, depends_on in facts.dependencies_with_options:
        if not (conditions := depends_on.conditions):
            continue
        path = f"{facts.path(i)}.dependsOn.conditions"
        targets = facts.steps[i].targets
        if depends_on.probe is not None and not depends_on.probe.empty:
            detail = "excludes probe, which decides alone whether a target is met; remove one"
            yield Violation(path, Reason.FORBIDDEN, None, detail)
        for name, word in conditions.items():
            place = join_path(path, name)
            if name not in targets:
                guess = suggester.nearest(name)
                meant = suggest.did_you_mean(guess if guess in targets else None)
                detail = "no target of this step; add it to dependsOn.targets or remove it" + meant
                yield Violation(place, Reason.INVALID, name, detail)
            yield from word_violations(place, word, Condition)


def targets_of_the_flow_are_steps(facts: FlowFacts) -> Iterator[Violation]:
    suggester = suggest.Suggester(facts.graph.names)
    for at, target in enumerate(facts.flow.spec.targets or ()):
        if target in facts.graph.index:
            continue
        detail = "no such step" + suggest.did_you_mean(suggester.nearest(target))
        if target in facts.finally_graph.index:
            detail = "a step of finally, which runs in any case; name steps of flows"
        yield Violation(f"spec.targets[{at}]", Reason.INVALID, target, detail)


def items_are_matched(facts: FlowFacts) -> Iterator[Violation]:
    for i, depends_on in facts.matching:
        path, word = f"{facts.path(i)}.dependsOn.items", depends_on.items
        if word != ItemDependency.MATCHING:
            detail = suggest.list_supported(word, ItemDependency)
            yield Violation(path, Reason.NOT_SUPPORTED, word, detail)
        elif get_probe(facts.steps[i]) is not None:
            detail = "excludes probe, which checks one job of each target; remove one of them"
            yield Violation(path, Reason.FORBIDDEN, None, detail)
        elif not any(facts.steps[target].for_each is not None for target in facts.targets(i)):
            detail = "no target has forEach, so there are no items to match; remove it"
            yield Violation(path, Reason.INVALID, word, detail)


class AwaitedEnd(NamedTuple):
    """A step that waits for the end of a daemon, not until it runs."""

    step: int
    daemon: int
    name: str
    path: str


def awaited_ends(facts: FlowFacts) -> list[AwaitedEnd]:
    """Return the dependencies on the ends of daemons, in the order of the flow."""
    flows = facts.flows
    # a daemon of finally has a fault of its own
    daemons = {i for i, step in facts.steps_with_options if step.daemon and i < len(flows)}
    found = []
    for i, depends_on in facts.dependencies_with_options if daemons else ():
        for target in facts.targets(i):
            if target in daemons and awaits_end(flows[i], flows[target]):
                name, path = flows[target].name, f"{facts.path(i)}.dependsOn.condition"
                if name in (depends_on.conditions or {}):
                    path = join_path(f"{path}s", name)
                found.append(AwaitedEnd(i, target, name, path))
    return found


def daemons_end_after_all_that_need_them(facts: FlowFacts) -> Iterator[Violation]:
    # a daemon ends when no step needs it to run any more, so no step that needs it to run can wait
    # for its end, directly or through others
    awaited = awaited_ends(facts)
    if not awaited or facts.unsound_graphs:
        return
    graph = Graph([*_steps_and_ends(facts, awaited)])
    for cycle in graph.cycles:
        target = graph.names[cycle[-2]].removeprefix(_END)
        at = facts.flows[cycle[0]].targets.index(target)
        detail = (
            "a daemon ends when no step needs it to run any more, so these steps wait for each "
            f"other: {in_running_order(graph.names, cycle)}; leave out the condition for the "
            "daemon, or remove one of these dependencies"
        )
        path = f"{facts.path(cycle[0])}.dependsOn.targets[{at}]"
        yield Violation(path, Reason.INVALID, target, detail)


def _steps_and_ends(facts: FlowFacts, awaited: list[AwaitedEnd]) -> Iterator[Step]:
    """Yield the steps, then the end of each daemon as a step that depends on all that need the
    daemon to run; of a daemon that needs it, on the end of that."""
    ends = {(each.step, each.daemon) for each in awaited}
    users: dict[int, list[str]] = {i: [] for i, step in enumerate(facts.flows) if step.daemon}
    for i, step in enumerate(facts.flows):
        targets = []
        for target in facts.targets(i):
            name = facts.flows[target].name
            targets.append(_END + name if (i, target) in ends else name)
            if target in users and (i, target) not in ends:
                users[target].append(_END + step.name if step.daemon else step.name)
        yield Step(name=step.name, depends_on=DependsOn(targets=targets))
    for daemon, names in users.items():
        name = facts.flows[daemon].name
        yield Step(name=_END + name, depends_on=DependsOn(targets=[name, *names]))


RULES: Rules = (
    RuleGroup(
        lambda facts: facts.dependencies_with_options,
        (
            strategies_and_conditions_are_known,
            conditions_are_of_targets,
            items_are_matched,
            daemons_end_after_all_that_need_them,
        ),
    ),
    RuleGroup(lambda facts: facts.flow.spec.targets, (targets_of_the_flow_are_steps,)),
)
