"""Leases and the table in `kube.election.candidate`."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from jobflow.kube.answers import UnreadableAnswer
from jobflow.kube.election.candidate import (
    LOOK,
    Candidate,
    Claim,
    Lease,
    Step,
    Timing,
    Wait,
    first_claim,
)

NOW = datetime(2026, 3, 4, 5, 6, 7, 89, tzinfo=UTC)
NOON = "2026-03-04T12:00:00.000000Z"
TIMING = Timing(lease=15, renew=10, retry=2, look=1)


def stored(version: str = "1", **spec: Any) -> Lease:
    """A Lease as an API server returns it."""
    meta = {"name": "jobflow", "namespace": "ns", "uid": "u", "resourceVersion": version}
    return Lease({"metadata": {**meta, "labels": {"team": "hpc"}}, "spec": spec})


@pytest.mark.parametrize(
    "answer",
    [
        b"<html>please log in</html>",
        b"",
        b"[]",
        b'{"kind": "Status"}',
        b'{"metadata": {"uid": "u"}}',
        b'{"metadata": {"uid": "u", "resourceVersion": "1"}, "spec": {"holderIdentity": 1}}',
    ],
)
def test_an_answer_that_is_no_lease_is_an_error_of_the_request(answer: bytes) -> None:
    with pytest.raises(UnreadableAnswer, match="cannot be read"):
        Lease.read(answer)


def spec_of(body: bytes) -> dict[str, Any]:
    spec: dict[str, Any] = json.loads(body)["spec"]
    return spec


def test_a_first_claim_has_holder_time_and_duration() -> None:
    manifest = json.loads(first_claim("ns", "jobflow", "me", 15, NOW))
    assert (manifest["apiVersion"], manifest["kind"]) == ("coordination.k8s.io/v1", "Lease")
    assert manifest["metadata"] == {"name": "jobflow", "namespace": "ns"}
    assert manifest["spec"] == {
        "holderIdentity": "me",
        "leaseDurationSeconds": 15,
        "acquireTime": "2026-03-04T05:06:07.000089Z",
        "renewTime": "2026-03-04T05:06:07.000089Z",
        "leaseTransitions": 0,
    }


@pytest.mark.parametrize(
    ("holder", "transitions", "acquired"),
    [
        ("me", 3, NOON),
        ("other", 4, "2026-03-04T05:06:07.000089Z"),
        ("", 4, "2026-03-04T05:06:07.000089Z"),
    ],
    ids=["renewed", "taken over", "taken up"],
)
def test_a_new_holder_counts_a_transition(holder: str, transitions: int, acquired: str) -> None:
    before = stored(holderIdentity=holder, leaseTransitions=3, acquireTime=NOON, renewTime=NOON)
    spec = spec_of(before.claimed("me", 15, NOW))
    assert (spec["leaseTransitions"], spec["acquireTime"]) == (transitions, acquired)
    assert spec["renewTime"] == "2026-03-04T05:06:07.000089Z"


def test_a_claim_keeps_foreign_fields_and_names_the_version() -> None:
    before = stored("7", holderIdentity="other", strategy="OldestEmulationVersion")
    body = json.loads(before.claimed("me", 15, NOW))
    assert body["metadata"] == before.body["metadata"]
    assert body["spec"]["strategy"] == "OldestEmulationVersion"


def test_a_renewal_changes_the_lease_even_if_the_clock_stops() -> None:
    before = stored(holderIdentity="me", renewTime="2026-03-04T05:06:07.000089Z")
    assert spec_of(before.claimed("me", 15, NOW))["renewTime"] == "2026-03-04T05:06:07.000090Z"


def test_a_released_lease_has_no_holder() -> None:
    spec = spec_of(stored(holderIdentity="me", leaseTransitions=2).released(NOW))
    assert "holderIdentity" not in spec
    assert spec["leaseTransitions"] == 2


def test_a_lease_with_an_empty_spec_is_free() -> None:
    lease = Lease({"metadata": {"uid": "u", "resourceVersion": "1"}})
    assert (lease.holder, lease.seconds) == ("", None)
    assert spec_of(lease.claimed("me", 15, NOW))["leaseTransitions"] == 1


@pytest.mark.parametrize(
    "invalid",
    [{"renew": 15.0}, {"retry": 10.0}, {"lease": 5}, {"retry": 0.0}, {"look": 0.0}],
    ids=str,
)
def test_timings_that_allow_two_leaders_are_refused(invalid: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="retry .* < renew deadline .* < lease duration"):
        Timing(**invalid)  # type: ignore[arg-type]


def test_a_write_ends_before_another_process_can_lead() -> None:
    assert Timing().write < Timing().lease - Timing().renew


class World:
    def __init__(self) -> None:
        self.candidate = Candidate("me", "ns", "jobflow", TIMING)

    def at(self, now: float) -> Step:
        return self.candidate.next(now, NOW)

    def claims(self, now: float) -> bool:
        return isinstance(self.at(now), Claim)

    def wins(self, *, sent: float, came: float, version: str = "2") -> None:
        self.candidate.stored(stored(version, holderIdentity="me"), sent, came)

    def sees(self, holder: str, now: float, *, version: str = "1", seconds: int = 15) -> None:
        spec = {"holderIdentity": holder, "leaseDurationSeconds": seconds}
        self.candidate.saw(stored(version, **spec), now)

    def leads(self, now: float) -> bool:
        return self.candidate.leads(now)


@pytest.fixture
def world() -> World:
    return World()


def test_a_candidate_reads_the_lease_first(world: World) -> None:
    assert world.at(0) == LOOK
    assert not world.leads(0)


def test_a_missing_lease_is_created(world: World) -> None:
    world.candidate.gone(0)
    step = world.at(0)
    assert isinstance(step, Claim)
    assert step.create


def test_a_term_lasts_from_the_answer_to_the_renew_deadline(world: World) -> None:
    world.candidate.gone(0)
    world.wins(sent=1, came=4)
    assert world.leads(4)
    assert world.leads(10.9)
    assert not world.leads(11)


def test_a_leader_renews_after_the_retry_period(world: World) -> None:
    world.wins(sent=1, came=1.5)
    assert world.at(1.5) == Wait(1.5)
    step = world.at(3)
    assert isinstance(step, Claim)
    assert not step.create


def test_the_lease_is_read_after_a_renewal_without_an_answer(world: World) -> None:
    world.wins(sent=1, came=1)
    world.candidate.failed(5)
    assert world.leads(5)
    assert world.at(5) == Wait(2)
    assert world.at(7) == LOOK
    world.sees("me", 7.5, version="3")
    assert world.claims(7.5)
    assert not world.leads(11)


def test_the_lease_is_read_at_once_after_a_conflict(world: World) -> None:
    world.candidate.gone(0)
    world.candidate.refused()
    assert world.at(0) == LOOK


def test_a_candidate_waits_for_another_holder_since_it_saw_the_claim(world: World) -> None:
    world.sees("other", 5)
    assert world.at(5) == Wait(1)
    assert world.at(6) == LOOK
    world.sees("other", 19.5)
    assert world.at(19.5) == Wait(0.5)
    assert world.claims(20)


def test_the_duration_of_the_holder_counts_if_it_is_longer(world: World) -> None:
    world.sees("other", 0, seconds=60)
    assert not world.claims(59)
    assert world.claims(60)


def test_a_released_lease_is_claimed_at_once(world: World) -> None:
    world.sees("", 0)
    assert world.claims(0)


def test_a_candidate_renews_its_own_lease_before_it_leads(world: World) -> None:
    world.sees("me", 0)
    assert not world.leads(0)
    assert world.claims(0)


@pytest.mark.parametrize("holder", ["other", ""])
def test_a_leader_stops_when_another_holds_the_lease(world: World, holder: str) -> None:
    world.wins(sent=0, came=0)
    world.sees(holder, 3, version="9")
    assert not world.leads(3)


def test_a_recreated_lease_is_led_only_after_its_duration(world: World) -> None:
    world.wins(sent=0, came=0)
    world.candidate.gone(3)
    assert not world.leads(3)
    assert world.claims(3)
    world.wins(sent=3, came=3, version="7")
    assert world.at(3) == Wait(2)
    assert world.candidate.release(4, NOW) is None
    for now in range(5, 18, 2):
        world.wins(sent=now, came=now, version=str(now))
        assert world.leads(now) == (now >= 3 + TIMING.lease)


def test_only_a_lease_that_is_certainly_held_is_released(world: World) -> None:
    world.sees("other", 0)
    assert world.candidate.release(0, NOW) is None
    world.wins(sent=1, came=1)
    world.candidate.failed(2)
    assert world.candidate.release(2, NOW) is None
    world.wins(sent=3, came=3)
    assert world.candidate.release(3, NOW) is not None
    assert not world.leads(3)
