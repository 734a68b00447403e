"""A flow with nearly every primitive gets each Command in every state that it reaches.

The Command arrives after a plan, before the effects of that plan. The flow then runs and ends as
the reference says.
"""

import pytest

from jobflow.api.flow.status import FINAL_PHASES
from model.acting import Script
from model.big_flow import big_flow
from model.carrying import Case, Simulation
from support.laws.effort_of_laws import STRIDE

COMMANDS = (
    "SuspendFlow",
    "AbortJob",
    "ResumeJob",
    "TerminateJob",
    "TerminateNow",
    "RestartJob",
    "RetryTolerated",
)
FLOWS = {
    "succeeds": big_flow(),
    "fails": big_flow(again=(Script(lasts=3, end="Failed"),)),
    "aborts": big_flow("Abort", again=(Script(lasts=2, end="Failed"),), beside=(Script(lasts=60),)),
}
SHARE = 8
"""`make test` follows only every nth branch."""


def count_plans(case: Case) -> int:
    """Count the plans of a flow from its start to its end."""
    simulation = Simulation(case)
    simulation.run_to_end()
    return simulation.plans


@pytest.mark.parametrize("flow", FLOWS)
def test_a_flow_without_commands_ends_as_expected(flow: str) -> None:
    world = Simulation(FLOWS[flow]).run_to_end()
    assert world.flow.status.state.phase == ("Succeed" if flow == "succeeds" else "Failed")


@pytest.mark.law
@pytest.mark.sampled(5)
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("flow", FLOWS)
def test_a_command_in_every_state(flow: str, command: str) -> None:
    send_in_states(FLOWS[flow], command, min(STRIDE, SHARE))


def send_in_states(case: Case, command: str, share: int) -> None:
    """Start each Command from another branch, so that together they cover many."""
    first = 1 + COMMANDS.index(command) % share
    for state in range(first, count_plans(case) + 1, share):
        simulation = Simulation(case, interrupted=(state, command))
        world = simulation.run_to_end()
        assert simulation.commands_sent >= 1, "it never came"
        assert world.flow.status.state.phase in FINAL_PHASES
        assert not any(vcjob.alive for vcjob in simulation.vcjobs.values())
