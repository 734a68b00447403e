"""A flow with nearly every primitive gets each Command at every state that it is ever in.

The Command comes after a plan, when what follows from that has not been done yet. However the flow
goes on, it goes on and ends as the reference says.
"""

import pytest

from jobflow.api.flow_status import FINAL_PHASES
from model.acting import Script
from model.big_flow import big
from model.carrying import Carried, Case

COMMANDS = ("SuspendFlow", "AbortJob", "ResumeJob", "TerminateJob", "TerminateNow", "RestartJob")
FLOWS = {
    "succeeds": big(),
    "fails": big(again=(Script(lasts=3, end="Failed"),)),
    "aborts": big("Abort", again=(Script(lasts=2, end="Failed"),), beside=(Script(lasts=60),)),
}
SHARE = 8
"""`make test` follows only every nth branch."""


def states(case: Case) -> int:
    """How many plans there are from its beginning to its end."""
    carried = Carried(case)
    carried.to_the_end()
    return carried.plans


@pytest.mark.parametrize("flow", FLOWS)
def test_it_ends_as_it_should_when_nobody_interferes(flow: str) -> None:
    world = Carried(FLOWS[flow]).to_the_end()
    assert world.flow.status.state.phase == ("Succeed" if flow == "succeeds" else "Failed")


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("flow", FLOWS)
def test_at_some_states(flow: str, command: str) -> None:
    every(FLOWS[flow], command, SHARE)


@pytest.mark.long
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("flow", FLOWS)
def test_at_every_state(flow: str, command: str) -> None:
    every(FLOWS[flow], command, 1)


def every(case: Case, command: str, share: int) -> None:
    """Start each Command from another branch, so that together they cover many."""
    first = 1 + COMMANDS.index(command) % share
    for state in range(first, states(case) + 1, share):
        carried = Carried(case, interrupted=(state, command))
        world = carried.to_the_end()
        assert carried.ordered >= 1, "it never came"
        assert world.flow.status.state.phase in FINAL_PHASES
        assert not any(vcjob.alive for vcjob in carried.vcjobs.values())
