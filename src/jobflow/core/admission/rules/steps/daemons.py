"""Rules of steps that wait for the end of a daemon (docs/decisions/policies-of-a-flow.md)."""

from collections.abc import Iterator

from jobflow.api.flow.dependencies import DependsOn
from jobflow.api.flow.step import Step
from jobflow.core.admission.analysis.awaited_ends import AwaitedEnd, awaited_ends
from jobflow.core.admission.analysis.flow_facts import FlowFacts
from jobflow.core.admission.rule import Group, Rule
from jobflow.core.admission.rules.steps.names_and_targets import in_running_order
from jobflow.core.spec.graph import Graph
from jobflow.core.violations import Reason, Violation

_END = "end of "
"""Before the name of a daemon. No name of a step has blanks."""


def daemons_end_after_all_that_need_them(facts: FlowFacts) -> Iterator[Violation]:
    """A daemon ends when no step needs it to run any more, so no step that needs it to run can wait
    for its end, directly or through others."""
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


DAEMON_RULES = (
    Group[Rule](
        lambda facts: facts.dependencies_with_options, (daemons_end_after_all_that_need_them,)
    ),
)
