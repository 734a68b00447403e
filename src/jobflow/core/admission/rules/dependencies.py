"""Rules of the options of dependsOn: strategies, conditions, single items, and the ends of daemons
(docs/decisions/matching-items.md, docs/decisions/policies-of-a-flow.md)."""

from collections.abc import Iterator
from typing import NamedTuple

from jobflow.api.flow.step import Condition, DependsOn, ItemDependency, Step, Strategy
from jobflow.core.admission.analysis.flow_facts import FlowFacts
from jobflow.core.admission.rule import RuleGroup, Rules
from jobflow.core.admission.rules.names_and_targets import in_running_order
from jobflow.core.spec.graph import Graph
from jobflow.core.spec.readiness import awaits_end, get_probe
from jobflow.core.suggest import Suggester, did_you_mean, list_supported
from jobflow.core.violations import Reason, Violation, join_path

_WORDS = {"strategy": frozenset(Strategy), "condition": frozenset(Condition)}
_END = "end of "
"""Before the name of a daemon. No name of a step has blanks."""


def strategies_and_conditions_are_known(facts: FlowFacts) -> Iterator[Violation]:
    for i, depends_on in facts.dependencies_with_options:
        for field, words in (("strategy", Strategy), ("condition", Condition)):
            if (word := getattr(depends_on, field)) is not None and word not in _WORDS[field]:
                path = f"{facts.path(i)}.dependsOn.{field}"
                yield Violation(path, Reason.NOT_SUPPORTED, word, list_supported(word, words))


def conditions_are_of_targets(facts: FlowFacts) -> Iterator[Violation]:
    suggester = Suggester(facts.names)
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
                meant = did_you_mean(guess if guess in targets else None)
                detail = "no target of this step; add it to dependsOn.targets or remove it" + meant
                yield Violation(place, Reason.INVALID, name, detail)
            if word not in _WORDS["condition"]:
                yield Violation(place, Reason.NOT_SUPPORTED, word, list_supported(word, Condition))


def targets_of_the_flow_are_steps(facts: FlowFacts) -> Iterator[Violation]:
    suggester = Suggester(facts.graph.names)
    for at, target in enumerate(facts.flow.spec.targets or ()):
        if target in facts.graph.index:
            continue
        detail = "no such step" + did_you_mean(suggester.nearest(target))
        if target in facts.finally_graph.index:
            detail = "a step of finally, which runs in any case; name steps of flows"
        yield Violation(f"spec.targets[{at}]", Reason.INVALID, target, detail)


def items_are_matched(facts: FlowFacts) -> Iterator[Violation]:
    for i, depends_on in facts.matching:
        path, word = f"{facts.path(i)}.dependsOn.items", depends_on.items
        if word != ItemDependency.MATCHING:
            detail = list_supported(word, ItemDependency)
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
    """The name of the daemon."""
    path: str
    """The condition that says so."""


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
