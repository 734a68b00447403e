"""The number of connections of probes never exceeds the budget, and a flow with a thousand pods
does not delay others. In virtual time."""

import asyncio
from bisect import bisect_left
from collections import Counter

import pytest

from jobflow.controller.probes.fair_slots import AT_ONCE
from support.network.probed_pods import Lab, pod, probe, web

A_SECOND = 100


def busiest(lab: Lab) -> int:
    times = sorted(time for time, _ in lab.asked)
    return max(bisect_left(times, begin + 1 - 1e-6) - at for at, begin in enumerate(times))


def probe_flows(lab: Lab, flows: int) -> None:
    for n in range(flows):
        name = f"flow{n}"
        lab.have(pod("web-0", job=name))
        lab.want(probe(job=name), flow=("ns", name), uid=f"uid-of-{name}")


@pytest.mark.long
def test_a_thousand_probes_share_the_budget_evenly() -> None:
    lab = Lab(answers=lambda name: "answers 503", roll=0.5)
    probe_flows(lab, 1000)
    lab.run(60)
    assert busiest(lab) == A_SECOND
    assert len(lab.count) == 1000
    assert min(lab.count.values()) >= 3
    assert max(lab.count.values()) - min(lab.count.values()) <= 1


@pytest.mark.long
def test_pods_that_never_answer_hold_no_more_connections_than_allowed() -> None:
    lab = Lab(answers=lambda name: "accepts no connection", takes=1.0)
    probe_flows(lab, 1000)
    most = 0

    def look() -> None:
        nonlocal most
        most = max(most, lab.open)

    lab.run(30, *((tick / 10 + 0.05, look) for tick in range(300)))
    assert busiest(lab) <= A_SECOND
    assert 0 < most <= AT_ONCE


@pytest.mark.long
def test_a_storm_of_events_does_not_exceed_the_budget() -> None:
    lab = Lab(answers=lambda name: "answers 503")
    probe_flows(lab, 200)

    def storm() -> None:
        """Replace every pod, and plan every flow again."""
        for n in range(200):
            name = f"flow{n}"
            lab.have(pod("web-0", job=name, uid=str(asyncio.get_running_loop().time())))
            lab.want(probe(job=name), flow=("ns", name), uid=f"uid-of-{name}")

    lab.run(6, *((tick / 50, storm) for tick in range(1, 250)))
    assert busiest(lab) == A_SECOND
    assert len(lab.count) == 200


def test_a_flow_with_a_thousand_pods_does_not_delay_the_others() -> None:
    lab = Lab().have(*(pod(f"web-{n}", job="big") for n in range(1000)))
    lab.want(probe(web(pods=1000), job="big"), flow=("ns", "big"), uid="uid-of-big")
    lab.run(60, (2.0, lambda: probe_flows(lab, 20)))
    assert busiest(lab) == A_SECOND
    others = [time for time, name in lab.asked if not name.startswith("big")]
    assert len(others) == 20
    assert max(others) < 2.5
    assert lab.prober.results("uid-of-big")["client", "uid-big"].passed


def test_a_thousand_pods_that_are_not_ready_cost_one_connection_a_round() -> None:
    lab = Lab(answers=lambda name: "refuses the connection")
    lab.have(*(pod(f"web-{n}") for n in range(1000)))
    lab.want(probe(web(pods=1000)))
    lab.run(60)
    rounds = Counter(round(time) for time, _ in lab.asked)
    assert rounds.pop(0) <= 16
    assert rounds
    assert set(rounds.values()) == {1}
