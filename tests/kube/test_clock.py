"""The API server's time by the Date headers of its answers: a clock that is right is not corrected,
one that is wrong is, within half a second."""

import random
from datetime import UTC, datetime
from email.utils import format_datetime

import pytest

from jobflow.kube.client import Client
from jobflow.kube.clock import ServerClock
from jobflow.kube.election.election import Fence, FencedClient
from support.network.anonymous import anonymous
from support.network.scripted_server import Answer, ScriptedServer


class Machines:
    """A server, and a machine whose clock is `ahead` of the server's by seconds."""

    def __init__(self, ahead: float = 0.0) -> None:
        self.time = 1_800_000_000.25
        """The server's time."""
        self.ahead = ahead
        self.clock = ServerClock(
            wall=lambda: self.time + self.ahead, clock=lambda: self.time - 1_799_999_000
        )

    def answer(self, there: float = 0.002, back: float = 0.002) -> None:
        """Send a request, and receive its answer after the seconds there and back."""
        sent = self.clock._clock()
        self.time += there
        date = format_datetime(datetime.fromtimestamp(int(self.time), UTC), usegmt=True)
        self.time += back
        self.clock.answered(date, sent, self.clock._clock())

    def answers(self, seconds: int, *, slow: float = 0.002) -> list[float]:
        """Return the offsets of a machine that gets answers for some time."""
        dice, offsets = random.Random(1), []
        for _ in range(seconds):
            self.time += dice.uniform(0.9, 1.5)
            self.answer(dice.uniform(0, slow), dice.uniform(0, slow))
            offsets.append(self.clock.offset)
        return offsets

    @property
    def error(self) -> float:
        return abs(self.clock.now().timestamp() - self.time)


@pytest.mark.parametrize("slow", [0.002, 4.0])
def test_a_clock_that_is_right_is_not_corrected(slow: float) -> None:
    assert set(Machines().answers(200, slow=slow)) == {0.0}


@pytest.mark.parametrize("ahead", [-600.0, -1.5, -0.7, 0.7, 1.5, 31.0, 86_400.0])
def test_a_clock_that_is_wrong_is_corrected(ahead: float) -> None:
    machines = Machines(ahead)
    offsets = machines.answers(200)
    assert machines.error < 0.6
    assert len(set(offsets)) <= 3, "the time does not jitter"


def test_the_first_answer_counts_at_once() -> None:
    machines = Machines(-600.0)
    assert machines.error == 600
    machines.answer()
    assert machines.error < 0.6


def test_setting_the_clock_does_not_change_the_time() -> None:
    machines = Machines()
    machines.answers(20)
    machines.ahead = 600.0
    assert machines.error < 0.6
    machines.ahead = 0.1
    assert machines.clock.offset == 0.0


def test_a_few_strange_answers_do_not_count(caplog: pytest.LogCaptureFixture) -> None:
    machines = Machines()
    machines.answers(20)
    for date in (None, "yesterday", "Sun, 29 Nov 2015 10:00:00 GMT"):
        machines.time += 2
        machines.clock.answered(date, machines.clock._clock(), machines.clock._clock())
    assert machines.clock.offset == 0.0
    assert not caplog.records


def test_a_large_offset_is_logged_when_it_begins_and_ends(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    machines = Machines(29.0)
    machines.answers(20)
    assert not caplog.records
    machines.ahead = 40.0
    machines.answers(20)
    machines.ahead = 0.0
    machines.answers(20)
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]


async def test_all_clients_of_a_server_have_one_clock(server: ScriptedServer) -> None:
    date = "Sun, 29 Nov 2015 10:00:00 GMT"
    server.others.append(Answer(body={}, headers={"Date": date}))
    fence = Fence(4.0)
    async with Client(anonymous(server.url)) as client, FencedClient(client, fence, 4.0) as fenced:
        fence.until = float("inf")
        await fenced.request("POST", "/api/v1/namespaces/ns/events", body=b"{}")
        assert client.clock.now().year == client.sibling().clock.now().year == 2015
