"""Rounds of a probe: when they pass or fail, and when the next one starts. In virtual time."""

import asyncio
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from jobflow.api.volcano.pod import Pod
from jobflow.controller.probes.prober import Prober
from jobflow.core.planning.actions import Check, ProbeResult
from support.network.probed_pods import FLOW, UID, Lab, leaving, pod, probe, web

PASSED = ProbeResult(passed=True)


def waiting(**lab: Any) -> Lab:
    """A probe of the pod web-0."""
    created = Lab(**lab).have(pod("web-0"))
    created.want(probe())
    return created


def test_a_probe_passes_when_every_pod_of_the_task_has_answered() -> None:
    lab = Lab().have(pod("web-0"), pod("web-1"), pod("ps-0"))
    lab.want(probe(web(pods=2)))
    assert lab.run().result() == PASSED
    assert lab.count == {"f-serve-web-0": 1, "f-serve-web-1": 1}
    assert lab.calls == [FLOW]


def test_a_passed_probe_sends_no_more_requests() -> None:
    lab = waiting()
    again: tuple[float, Callable[[], object]] = (20, lambda: lab.want(probe()))
    assert lab.run(100, again).result() == PASSED
    assert lab.times == [0]


def test_all_checks_must_pass_in_one_round() -> None:
    lab = Lab().have(pod("web-0"), pod("ps-0", ip="10.0.0.9"))
    lab.answers = lambda name: "refuses the connection" if "ps" in name else ""
    lab.want(probe(web(), Check(task="ps", pods=1, port=2222)))
    message = "10.0.0.9:2222 of pod f-serve-ps-0 refuses the connection"
    assert lab.run().result() == ProbeResult(message=message)


def test_a_repeated_check_sends_one_request() -> None:
    lab = Lab().have(pod("web-0"))
    lab.want(probe(web(), web()))
    assert lab.run().result() == PASSED
    assert len(lab.asked) == 1


def test_equal_checks_of_several_steps_are_one_probe() -> None:
    lab = Lab().have(pod("web-0"))
    lab.want(probe(step="a"), probe(step="b"), probe(web(path="/other"), step="c"))
    lab.run()
    assert [lab.result(step) for step in "abc"] == [PASSED] * 3
    assert len(lab.asked) == 2


def test_a_probe_of_a_task_without_pods_passes() -> None:
    lab = Lab()
    lab.want(probe(web(pods=0)))
    assert lab.run().result() == PASSED


@pytest.mark.parametrize(
    ("existing", "message"),
    [
        ((), "pod f-serve-web-0 does not exist yet"),
        ((pod("web-0", phase="Pending", ip=""),), "pod f-serve-web-0 is Pending"),
        ((pod("web-0", phase="", ip=""),), "pod f-serve-web-0 is Pending"),
        ((pod("web-0", ip=""),), "pod f-serve-web-0 has no IP yet"),
        ((leaving(pod("web-0")),), "pod f-serve-web-0 is being deleted"),
        (
            (pod("web-0", phase="Succeeded"),),
            "pod f-serve-web-0 has ended Succeeded, so it cannot answer",
        ),
        (
            (pod("web-0", phase="Failed"),),
            "pod f-serve-web-0 has ended Failed, so it cannot answer",
        ),
        ((pod("web-0"),), "pod f-serve-web-1 does not exist yet"),
    ],
)
def test_a_pod_that_cannot_answer_stops_the_round(existing: tuple[Pod, ...], message: str) -> None:
    lab = Lab().have(*existing)
    lab.want(probe(web(pods=2)))
    assert lab.run(60).result() == ProbeResult(message=message)
    assert lab.asked == []
    assert lab.calls == [FLOW]


def test_a_pod_of_another_job_is_not_requested() -> None:
    lab = Lab()
    foreign_pod = pod("web-0", job="other")
    lab.pods["uid-f-serve"] = {"f-serve-web-0": foreign_pod}
    lab.want(probe())
    assert lab.run().result().message == "pod f-serve-web-0 does not exist yet"
    assert lab.asked == []


def test_an_ipv6_address_is_in_brackets() -> None:
    lab = Lab(answers=lambda name: "answers 503").have(pod("web-0", ip="fd00::7"))
    lab.want(probe())
    message = "[fd00::7]:8080/healthz of pod f-serve-web-0 answers 503"
    assert lab.run().result().message == message


def test_a_long_path_does_not_hide_the_result() -> None:
    lab = Lab(answers=lambda name: "answers 503").have(pod("web-0"))
    lab.want(probe(web(path="/" + 300 * "x")))
    message = lab.run().result().message
    assert message.endswith("x… of pod f-serve-web-0 answers 503")
    assert len(message) < 140


def test_an_exception_in_a_check_does_not_end_the_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = Lab().have(pod("web-0"), pod("web-0", job="g"))

    def answers(name: str) -> str:
        if name.startswith("g"):
            return ""
        raise KeyError(name)

    lab.answers = answers
    lab.want(probe(), probe(step="other", job="g"))
    lab.run()
    assert lab.result().message.endswith("pod f-serve-web-0 could not be asked (KeyError)")
    assert lab.result("other", "g") == PASSED


@pytest.mark.parametrize(("roll", "waits"), [(0.0, [2, 4, 8, 15, 15]), (1.0, [1, 2, 4, 7.5, 7.5])])
def test_rounds_are_one_to_fifteen_seconds_apart(roll: float, waits: list[float]) -> None:
    lab = waiting(answers=lambda name: "answers 503", roll=roll)
    times = lab.run(50).times
    assert [after - before for before, after in pairwise(times)][:5] == waits


def test_a_round_ends_at_the_first_failure_and_the_next_starts_there() -> None:
    lab = Lab().have(*(pod(f"web-{n}") for n in range(1000)))
    lab.answers = lambda name: "answers 503" if name == "f-serve-web-700" else ""
    lab.want(probe(web(pods=1000)))

    def ready() -> None:
        lab.answers = lambda name: ""

    assert lab.run(100, (60, ready)).result() == PASSED
    first = [name for time, name in lab.asked if time < 9]
    assert len(first) < 730
    assert {name for time, name in lab.asked if 9 <= time < 60} == {"f-serve-web-700"}
    last = [name for time, name in lab.asked if time >= 60]
    assert (len(last), last[0]) == (1000, "f-serve-web-700")


def test_a_repeated_failure_reports_no_change() -> None:
    lab = Lab().have(pod("web-0"), pod("web-1"))
    lab.answers = lambda name: "answers 503"
    lab.want(probe(web(pods=2)))
    lab.run(100)
    assert lab.calls == [FLOW]


def test_a_change_of_a_pod_starts_the_next_round_at_once() -> None:
    lab = Lab().have(pod("web-0", phase="Pending", ip=""))
    lab.want(probe())

    def start_pod() -> None:
        lab.have(pod("web-0"))
        lab.want(probe())

    assert lab.run(50, (40.3, start_pod)).result() == PASSED
    assert lab.times == [40.3]


@pytest.mark.parametrize("event", [pod("web-0", ip="10.0.0.8"), pod("web-0", uid="another")])
def test_a_new_pod_or_ip_resets_the_delay(event: Pod) -> None:
    lab = waiting(answers=lambda name: "answers 503")

    def change() -> None:
        lab.have(event)
        lab.want(probe())

    assert lab.run(48, (40, change)).times == [0, 2, 6, 14, 29, 40, 42, 46]


def test_pods_of_other_tasks_and_unchanged_plans_have_no_effect() -> None:
    lab = waiting(answers=lambda name: "answers 503")

    def change() -> None:
        lab.have(pod("ps-0"))
        lab.want(probe())

    assert lab.run(10, (3, change), (4, change)).times == [0, 2, 6]


def test_an_unreported_event_counts_in_the_next_round() -> None:
    lab = Lab().have(pod("web-0", ip=""))
    lab.want(probe())
    assert lab.run(20, (7, lambda: lab.have(pod("web-0")))).result() == PASSED


def test_a_pod_replaced_during_a_round_is_checked_again() -> None:
    lab = Lab(takes=0.4).have(pod("web-0"), pod("web-1"))
    lab.want(probe(web(pods=2)))
    new = pod("web-1", ip="10.0.0.8", uid="new")
    assert lab.run(1, (0.2, lambda: lab.have(new))).result() == PASSED
    assert lab.times == [0, 0, 0.4, 0.4]


def test_a_pod_replaced_during_its_check_resets_the_delay() -> None:
    lab = waiting(answers=lambda name: "answers 503", takes=1.0)
    new = (17.5, lambda: lab.have(pod("web-0", uid="new")))
    assert lab.run(22, new).times == [0, 3, 8, 17, 18, 21]


def test_a_pod_deleted_during_a_round_prevents_the_pass() -> None:
    lab = Lab(takes=0.4).have(pod("web-0"), pod("web-1"))
    lab.want(probe(web(pods=2)))
    deletion = (0.2, lambda: lab.pods["uid-f-serve"].pop("f-serve-web-0"))
    assert lab.run(0.5, deletion).result().message == "pod f-serve-web-0 does not exist yet"


def test_the_last_answer_of_an_ended_pod_stays_in_the_message() -> None:
    lab = waiting(answers=lambda name: "answers 503")
    assert lab.run(20, (5, lambda: lab.have(pod("web-0", phase="Failed")))).result().message == (
        "10.0.0.7:8080/healthz of pod f-serve-web-0 answers 503; "
        "then pod f-serve-web-0 ended Failed"
    )


def test_a_probe_that_failed_passes_later() -> None:
    lab = waiting(answers=lambda name: "answers 503")

    def ready() -> None:
        lab.answers = lambda name: ""

    assert lab.run(20, (5, ready)).result() == PASSED
    assert lab.calls == [FLOW, FLOW]


def test_a_probe_that_is_no_longer_wanted_stops_at_once() -> None:
    lab = Lab(takes=1.0).have(pod("web-0"), pod("web-0", job="g"))
    lab.want(probe(), probe(step="other", job="g"))
    seen = []

    def drop_one() -> None:
        lab.want(probe(step="other", job="g"))
        asyncio.get_running_loop().call_later(0.01, lambda: seen.append(lab.open))

    lab.run(0.8, (0.5, drop_one))
    assert seen == [1]
    assert lab.prober.results(UID).keys() == {("other", "uid-g")}


@pytest.mark.parametrize("end", ["forgotten", "wants nothing", "another of its name"])
def test_the_probes_of_a_deleted_flow_end(end: str) -> None:
    lab = waiting(answers=lambda name: "answers 503")
    ways: dict[str, Callable[[], object]] = {
        "forgotten": lambda: lab.prober.forget(FLOW),
        "wants nothing": lambda: lab.want(),
        "another of its name": lambda: lab.want(probe(job="none"), uid="uid-2"),
    }
    lab.run(100, (1, ways[end]))
    assert lab.times == [0]
    assert lab.prober.results(UID) == {}


@pytest.mark.parametrize("end", ["the prober", "the probe"])
def test_a_stop_at_the_moment_of_a_failure_takes_effect(end: str) -> None:
    lab = Lab(answers=lambda name: "answers 503", takes=1.0)
    lab.have(*(pod(f"web-{n}") for n in range(20)))
    lab.want(probe(web(pods=20)))
    lab.run(*((1.0,) if end == "the prober" else (100, (1.0, lambda: lab.want()))))
    assert lab.open == 0
    assert len(lab.asked) == 16


def test_a_changed_check_starts_from_the_shortest_delay() -> None:
    lab = Lab(answers=lambda name: "answers 503").have(pod("web-0"), pod("web-1"))
    lab.want(probe())
    assert lab.run(4, (3, lambda: lab.want(probe(web(path="/x"))))).times == [0, 2, 3]


def test_forgetting_an_unknown_flow_has_no_effect() -> None:
    lab = Lab()
    lab.prober.forget(FLOW)
    lab.want()
    assert len(lab.prober) == 0


def test_hooks_are_called_with_waiting_probes_and_checks() -> None:
    lab = Lab(answers=lambda name: "" if name.startswith("g") else "no")
    lab.have(pod("web-0"), pod("web-0", job="g"))
    lab.want(probe(), probe(step="other", job="g"))
    assert len(lab.prober) == 2
    lab.run()
    assert len(lab.prober) == 1
    assert lab.counting.waiting == [2, 1, 0]
    assert sorted(lab.counting.verdicts) == [False, True]
    lab.prober.forget(FLOW)
    assert len(lab.prober) == 0


def test_a_prober_that_stops_cancels_its_checks() -> None:
    lab = Lab(takes=1.0).have(*(pod(f"web-{n}") for n in range(50)))
    lab.want(probe(web(pods=50)))
    lab.run(0.5)
    assert lab.open == 0
    assert lab.result() == ProbeResult()


def test_probes_requested_between_two_runs_are_kept() -> None:
    lab = Lab().have(pod("web-0"))
    lab.run(1)
    lab.want(probe())
    assert lab.run(1).result() == PASSED


def test_a_listener_that_fails_ends_the_prober() -> None:
    lab = Lab().have(pod("web-0"))

    def changed(flow: object) -> None:
        raise LookupError("nobody listens")

    lab.prober = Prober(lambda uid: lab.pods[uid], changed, check=lab._check)
    lab.want(probe())
    with pytest.raises(ExceptionGroup) as raised:
        lab.run(1)
    assert raised.value.subgroup(LookupError)
