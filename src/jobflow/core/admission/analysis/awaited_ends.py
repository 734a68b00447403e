"""Steps that wait for the end of a daemon, not until it runs."""

from typing import NamedTuple

from jobflow.core.admission.analysis.flow_facts import FlowFacts
from jobflow.core.spec.readiness import awaits_end
from jobflow.core.violations import join_path


class AwaitedEnd(NamedTuple):
    """A step that waits for the end of a daemon."""

    step: int
    daemon: int
    name: str
    """That of the daemon."""
    path: str
    """The condition that says so."""


def awaited_ends(facts: FlowFacts) -> list[AwaitedEnd]:
    """Return the dependencies on the ends of daemons, in the order of the flow."""
    flows = facts.flows
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
