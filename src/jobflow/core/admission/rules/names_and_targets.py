"""Rules of what every flow has: names, templates, targets and jobRetainPolicy.

A flow that can reach Succeed is admitted, so a target that is named twice is no fault.
"""

from collections.abc import Iterator

from jobflow.api.flow.jobflow import RetainPolicy
from jobflow.core.admission.analysis.flow_facts import FlowFacts
from jobflow.core.admission.object_names import all_names, name_violations, object_name_violations
from jobflow.core.admission.rule import RuleGroup, Rules, every_flow
from jobflow.core.suggest import (
    CURLY_QUOTES,
    CURLY_QUOTES_ARE_PART,
    Suggester,
    did_you_mean,
    list_supported,
)
from jobflow.core.violations import Reason, Violation

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
    first: dict[str, int] = facts.graph.index
    if facts.finally_steps:
        first = {name: i for i, name in reversed([*enumerate(facts.names)])}
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
        suggester = Suggester(graph.names)
        # steps of finally start after those of flows, so dependencies cross neither way
        others = facts.graph if first else facts.finally_graph
        for i, at in graph.unknown:
            target = facts.steps[first + i].targets[at]
            if target not in others.index:
                guess = suggester.nearest(target)
                meant = did_you_mean(guess if guess != graph.names[i] else None)
                curly = CURLY_QUOTES_ARE_PART if CURLY_QUOTES.intersection(target) else ""
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
    if (policy := facts.flow.spec.job_retain_policy) not in _RETAIN_POLICIES:
        detail = list_supported(policy, RetainPolicy)
        yield Violation("spec.jobRetainPolicy", Reason.NOT_SUPPORTED, policy, detail)


RULES: Rules = (
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
        (
            targets_are_steps,
            targets_are_other_steps,
            dependencies_have_an_order,
        ),
    ),
)
