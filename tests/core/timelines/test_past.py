"""A flow as it was at an earlier time."""

from datetime import datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given

from jobflow.api.flow.control import ForEach, Retry
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import ENDED_STEP_PHASES, RunCondition, StepCondition
from jobflow.api.flow.step import Step
from jobflow.core.names import format_job_name
from jobflow.core.timelines.past import UNKNOWN, flow_at, forgotten, last_time, moments
from jobflow.core.timelines.spans import Attempts, list_retries
from jobflow.core.timelines.timeline import first_start, timeline
from model.carrying import Case, Simulation
from model.random_flows import cases
from support.laws.effort_of_laws import tries
from support.plan.timelines import at, done, flow_of, of, record


def present(flow: JobFlow) -> dict[str, str]:
    conditions, name = flow.status.conditions or {}, flow.metadata.name
    waiting = StepCondition(phase="Waiting")
    return {
        step.name: conditions.get(format_job_name(name, step.name), waiting).phase or "Waiting"
        for step in flow.all_steps
    }


def phases_at(flow: JobFlow, time: datetime) -> dict[str, str]:
    return present(flow_at(flow, time))


def phases(flow: JobFlow, seconds: float) -> str:
    """The phases at a second: `a:Running b:Waiting`."""
    return " ".join(f"{step}:{phase}" for step, phase in phases_at(flow, at(seconds)).items())


CHAIN = flow_of(
    {
        "a": done("a", last_transition_time=at(11)),
        "b <- a": done("b", last_transition_time=at(21)),
    },
    [record("a", (0, 3, 10)), record("b", (12, 15, 20))],
    end=21,
)


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (-1, "a:Waiting b:Waiting"),
        (0, "a:Pending b:Waiting"),
        (3, "a:Running b:Waiting"),
        (10, "a:Completed b:Waiting"),
        (12, "a:Completed b:Pending"),
        (15, "a:Completed b:Running"),
        (20, "a:Completed b:Completed"),
    ],
)
def test_a_step_has_the_phase_of_its_job(seconds: float, expected: str) -> None:
    assert phases(CHAIN, seconds) == expected


def test_a_step_waits_between_two_attempts() -> None:
    condition = StepCondition(
        phase="Completed", job="f-a-r1", attempts=2, last_transition_time=at(30)
    )
    flow = flow_of(
        {"a": condition},
        [record("a", (0, 1, 5), "Failed"), record("a-r1", (20, 21, 30))],
        end=31,
    )
    assert [phases(flow, second) for second in (4, 5, 19, 21, 30)] == [
        "a:Running",
        "a:Waiting",
        "a:Waiting",
        "a:Running",
        "a:Completed",
    ]
    conditions = flow_at(flow, at(10)).status.conditions
    assert conditions is not None
    assert (conditions["f-a"].attempts, conditions["f-a"].job) == (1, "f-a")


def test_a_step_that_was_cancelled_while_it_waited_had_not_failed_before() -> None:
    failed = StepCondition(
        phase="Failed", reason="Cancelled", job="f-a", attempts=1, last_transition_time=at(60)
    )
    flow = flow_of({"a": failed}, [record("a", (0, 1, 5), "Failed")], end=60)
    found = [phases(flow, second) for second in (5, 59, 60)]
    assert found == ["a:Waiting", "a:Waiting", "a:Failed"]


def test_items_are_as_many_as_there_were() -> None:
    runs = [
        RunCondition(index=0, phase="Completed", attempts=1, last_transition_time=at(10)),
        RunCondition(index=1, phase="Failed", attempts=1, last_transition_time=at(20)),
    ]
    step = Step(name="a", for_each=ForEach(count=2))
    ended = StepCondition(phase="Failed", runs=runs, attempts=2, last_transition_time=at(20))
    flow = flow_of(
        {"a": (step, ended)},
        [record("a-0", (0, 1, 10)), record("a-1", (10, 11, 20), "Failed")],
        end=21,
    )

    def runs_at(second: float) -> list[str]:
        condition = (flow_at(flow, at(second)).status.conditions or {})["f-a"]
        return [condition.phase, *(run.phase for run in condition.runs or ())]

    assert runs_at(5) == ["Running", "Running"]
    assert runs_at(15) == ["Running", "Completed", "Running"]
    assert runs_at(20) == ["Failed", "Completed", "Failed"]


def test_a_skipped_step_waits_until_it_is_skipped() -> None:
    skipped = StepCondition(phase="Skipped", reason="NotTaken", last_transition_time=at(10))
    flow = flow_of({"a": done("a"), "b <- a": skipped}, [record("a", (0, 0, 10))], end=20)
    assert phases(flow, 9) == "a:Running b:Waiting"
    assert phases(flow, 10) == "a:Completed b:Skipped"


def test_a_child_flow_runs_from_its_creation() -> None:
    child = StepCondition(
        phase="Completed",
        flow="f-a",
        attempts=1,
        create_time=at(5),
        last_transition_time=at(20),
    )
    flow = flow_of({"a": child}, [], end=20)
    assert [phases(flow, second) for second in (4, 5, 20)] == [
        "a:Waiting",
        "a:Running",
        "a:Completed",
    ]


def test_what_the_status_does_not_remember_is_unknown_and_said() -> None:
    dropped = StepCondition(phase="Completed", job="f-a", attempts=1)
    again = StepCondition(phase="Running", flow="f-b-r1", attempts=2, create_time=at(30))
    flow = flow_of({"a": dropped, "b": again}, [], suspended_seconds=90)
    assert phases_at(flow, at(5))["a"] == UNKNOWN
    assert forgotten(flow) == [
        "The flow was suspended for 1m30s in all; it is not known when.",
        "It is not known when a started and ended.",
        "Only the last child flow of b is known.",
    ]
    assert forgotten(CHAIN) == []


def retried(**status: Any) -> JobFlow:
    """A flow that failed after 20 seconds, because b failed, and was retried after 50."""
    again = StepCondition(
        phase="Running", job="f-b-r1", attempts=2, past_attempts=1, last_transition_time=at(61)
    )
    waits = StepCondition(phase="Waiting")
    return flow_of(
        {"a": done("a", last_transition_time=at(10)), "b <- a": again, "c <- b": waits},
        [
            record("a", (0, 1, 10)),
            record("b", (11, 12, 20), "Failed"),
            record("b-r1", (51, 60, None), "Running"),
        ],
        **{"start_time": at(50), **status},
    )


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (-1, "a:Waiting b:Waiting c:Waiting"),
        (5, "a:Running b:Waiting c:Waiting"),
        (15, "a:Completed b:Running c:Waiting"),
        (20, "a:Completed b:Failed c:Waiting"),
        (49, "a:Completed b:Failed c:Waiting"),
        (50, "a:Completed b:Waiting c:Waiting"),
        (55, "a:Completed b:Pending c:Waiting"),
        (61, "a:Completed b:Running c:Waiting"),
    ],
)
def test_the_attempts_before_a_retry_are_seen(seconds: float, expected: str) -> None:
    assert phases(retried(), seconds) == expected


def retried_twice() -> JobFlow:
    """A flow whose step b failed after 20 and 60 seconds, retried at about 40 and after 80."""
    completed = StepCondition(
        phase="Completed", job="f-b-r2", attempts=3, past_attempts=2, last_transition_time=at(99)
    )
    return flow_of(
        {"a": done("a", last_transition_time=at(10)), "b <- a": completed},
        [
            record("a", (0, 1, 10)),
            record("b", (11, 12, 20), "Failed"),
            record("b-r1", (41, 42, 60), "Failed"),
            record("b-r2", (82, 83, 99)),
        ],
        start_time=at(80),
        end=99,
    )


def test_a_failed_step_is_failed_until_each_retry() -> None:
    expected = {15: "Running", 20: "Failed", 40: "Failed", 41: "Pending"}
    expected |= {60: "Failed", 79: "Failed", 80: "Waiting", 99: "Completed"}
    found = {second: phases_at(retried_twice(), at(second))["b"] for second in expected}
    assert found == expected


def test_a_step_with_retry_waits_between_the_attempts_before_a_retry() -> None:
    again = StepCondition(
        phase="Running", job="f-a-r2", attempts=3, past_attempts=2, last_transition_time=at(51)
    )
    flow = flow_of(
        {"a": (Step(name="a", retry=Retry(limit=1)), again)},
        [
            record("a", (0, 1, 10), "Failed"),
            record("a-r1", (15, 16, 20), "Failed"),
            record("a-r2", (51, 51, None), "Running"),
        ],
        start_time=at(50),
    )
    found = [phases(flow, second) for second in (12, 20, 50)]
    assert found == ["a:Waiting", "a:Failed", "a:Waiting"]


def test_a_retried_flow_that_waits_for_its_place_is_seen_from_its_first_start() -> None:
    flow = retried(start_time=None, queued_time=at(50))
    assert phases(flow, 15) == "a:Completed b:Running c:Waiting"
    assert phases(flow, 49) == "a:Completed b:Failed c:Waiting"


def test_before_a_retry_a_flow_has_its_first_start_and_had_failed_at_the_end() -> None:
    def state(seconds: float) -> tuple[str, datetime | None]:
        status = flow_at(retried(), at(seconds)).status
        return status.state.phase, status.start_time

    assert state(15) == ("Running", at(0))
    assert state(30) == ("Failed", at(0))
    assert state(55) == ("Running", at(50))


def test_items_before_a_retry_had_ended_with_their_jobs() -> None:
    runs = [
        RunCondition(index=0, phase="Completed", attempts=1, last_transition_time=at(10)),
        RunCondition(
            index=1,
            phase="Waiting",
            job="f-a-1",
            attempts=1,
            past_attempts=1,
            last_transition_time=at(50),
        ),
    ]
    step = Step(name="a", for_each=ForEach(count=2))
    again = StepCondition(
        phase="Waiting", runs=runs, attempts=2, past_attempts=2, last_transition_time=at(50)
    )
    flow = flow_of(
        {"a": (step, again)},
        [record("a-0", (0, 1, 10)), record("a-1", (10, 11, 20), "Failed")],
        start_time=at(50),
    )
    assert [phases(flow, second) for second in (15, 20, 49, 50)] == [
        "a:Running",
        "a:Failed",
        "a:Failed",
        "a:Waiting",
    ]


def test_the_end_of_a_child_flow_before_a_retry_is_unknown() -> None:
    again = StepCondition(
        phase="Running",
        flow="f-a",
        attempts=2,
        past_attempts=1,
        create_time=at(5),
        last_transition_time=at(55),
    )
    flow = flow_of({"a": again}, [record("x", (0, 1, 10))], start_time=at(50))
    assert [phases(flow, second) for second in (4, 30, 50, 55)] == [
        "a:Waiting",
        "a:Unknown",
        "a:Unknown",
        "a:Running",
    ]


def test_a_daemon_that_ended_with_its_flow_had_not_failed_before_the_retry() -> None:
    again = StepCondition(
        phase="Waiting", job="f-a", attempts=1, past_attempts=1, last_transition_time=at(50)
    )
    flow = flow_of(
        {"a": (Step(name="a", daemon=True), again)},
        [record("a", (0, 1, 20), "Aborted")],
        start_time=at(50),
    )
    assert phases(flow, 30) == "a:Completed"


def test_the_status_remembers_only_jobs_from_before_a_retry() -> None:
    assert forgotten(retried()) == [
        "The flow was retried. Only its jobs are known of the time before: a step that was skipped "
        "then is shown as Waiting."
    ]


def test_a_retry_is_a_moment() -> None:
    found = timeline(retried(), now=at(70), whole=True)
    assert found is not None
    assert [(each.time, each.words) for each in moments(retried(), found)] == [
        (at(0), "a started"),
        (at(10), "a ended"),
        (at(11), "b started"),
        (at(20), "b failed"),
        (at(50), "the flow was retried"),
        (at(51), "b started"),
    ]


def test_a_job_that_failed_before_a_start_was_seen_is_a_moment() -> None:
    failed = StepCondition(phase="Waiting", job="f-a", attempts=1, past_attempts=1)
    flow = flow_of({"a": failed}, [record("a", (0, None, 1), "Failed")], start_time=at(9))
    found = timeline(flow, now=at(10), whole=True)
    assert found is not None
    assert moments(flow, found)[1].words == "a failed"


def test_moments_are_one_a_second_and_say_what_happened() -> None:
    condition = StepCondition(phase="Failed", job="f-b", attempts=1, last_transition_time=at(10))
    flow = flow_of(
        {"a": done("a"), "b": condition},
        [record("a", (0, 1, 10)), record("b", (0, 2, 10), "Failed")],
        end=10,
    )
    found = [(each.time, each.kind.value, each.words) for each in moments(flow, of(flow))]
    assert found == [
        (at(0), "started", "a and b started"),
        (at(10), "failed", "b failed; a ended"),
    ]


@pytest.mark.law
@given(cases())
@tries(56)
def test_a_random_flow_ends_as_it_is_and_never_goes_back(case: Case) -> None:
    simulation = Simulation(case)
    simulation.run_to_end()
    check_past(simulation.world.flow)


@pytest.mark.law
@given(cases())
@tries(24)
def test_a_random_flow_is_at_each_moment_as_it_is(case: Case) -> None:
    simulation = Simulation(case)
    advance = simulation.advance

    def advance_and_check() -> None:
        advance()
        flow = simulation.world.flow
        if flow.status.start_time is not None:
            assert phases_at(flow, max(last_time(flow), simulation.world.now)) == present(flow)

    simulation.advance = advance_and_check  # type: ignore[method-assign]
    simulation.run_to_end()


def check_past(flow: JobFlow) -> None:
    """Check what holds for every flow: its last state is the present one, a step that has ended
    has ended from then on or until a retry, its attempts grow, and nothing has begun before the
    first start."""
    start = first_start(flow)
    if start is None:
        return
    end = last_time(flow)
    assert phases_at(flow, end) == present(flow)
    assert set(phases_at(flow, start.replace(year=start.year - 1)).values()) <= {"Waiting"}
    found = timeline(flow, now=end, whole=True)
    assert found is not None
    times = sorted({start, end, *(each.time for each in moments(flow, found))})
    ended: dict[str, str] = {}
    attempts = 0
    for time in times:
        if time in list_retries(flow, Attempts(flow)):
            ended = {}
        then = flow_at(flow, time)
        conditions = (then.status.conditions or {}).values()
        assert sum(each.attempts for each in conditions) >= attempts
        attempts = sum(each.attempts for each in conditions)
        now = phases_at(flow, time)
        assert {step: now[step] for step in ended} == ended
        ended = {step: phase for step, phase in now.items() if phase in ENDED_STEP_PHASES}
        msgspec.json.encode(then)
