"""The timeline of a flow: when its steps waited, were queued and ran, and the critical path."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from jobflow.api.flow.control import Approval, ForEach
from jobflow.api.flow.status import RunCondition, StepCondition
from jobflow.api.flow.step import DependsOn, Probe, Step, TaskStatusProbe
from jobflow.core.timelines.spans import Span, State, time_by_state
from jobflow.core.timelines.timeline import timeline, with_children
from support.laws.counted_work import lines_run
from support.plan.timelines import at, check_laws, done, flow_of, of, path, record, seconds, spans


def test_a_step_waits_is_queued_and_runs() -> None:
    flow = flow_of(
        {"a": done("a"), "b <- a": done("b")},
        [record("a", (1, 3, 10)), record("b", (12, 15, 20))],
        end=21,
    )
    found = of(flow)
    assert [spans(row) for row in found.steps] == ["w0-1 q1-3 r3-10", "w10-12 q12-15 r15-20"]
    assert [row.after for row in found.steps] == ["", "a"]
    assert path(found) == "a:10 b:11"
    assert seconds(found) == [4, 5, 12]


def test_the_path_leads_through_the_slowest_branch() -> None:
    flow = flow_of(
        {"a": done("a"), "b <- a": done("b"), "c <- a": done("c"), "d <- b c": done("d")},
        [
            record("a", (0, 0, 5)),
            record("b", (5, 5, 9)),
            record("c", (5, 5, 30)),
            record("d", (30, 31, 40)),
        ],
        end=40,
    )
    found = of(flow)
    assert path(found) == "a:5 c:25 d:10"
    assert [row.is_critical for row in found.steps] == [True, False, True, True]


def test_a_daemon_is_not_on_the_path_but_its_start_is_waited_for() -> None:
    daemon = Step(name="db", daemon=True, depends_on=DependsOn(targets=["a"]))
    flow = flow_of(
        {"a": done("a"), "db": (daemon, done("db")), "b <- db": done("b")},
        [record("a", (0, 0, 5)), record("db", (5, 8, 40)), record("b", (8, 8, 30))],
        end=41,
    )
    found = of(flow)
    assert [row.after for row in found.steps] == ["", "a", "db"]
    assert path(found) == "a:5 b:36"
    assert seconds(found) == [3 + 11, 0, 5 + 22]


def test_a_skipped_step_takes_no_time_of_the_path() -> None:
    skipped = StepCondition(phase="Skipped", reason="NotTaken", last_transition_time=at(10))
    finished = Step(name="c", depends_on=DependsOn(targets=["b"], condition="Finished"))
    flow = flow_of(
        {"a": done("a"), "b <- a": skipped, "c": (finished, done("c"))},
        [record("a", (0, 0, 10)), record("c", (10, 10, 20))],
        end=20,
    )
    assert [spans(row) for row in of(flow).steps] == ["r0-10", "", "r10-20"]
    assert path(of(flow)) == "a:10 c:10"


def test_finally_follows_the_last_of_all_steps() -> None:
    flow = flow_of(
        {"a": done("a"), "b": done("b")},
        [record("a", (0, 0, 10)), record("b", (0, 0, 20)), record("z", (21, 21, 25))],
        end=25,
        last={"z": done("z")},
    )
    found = of(flow)
    assert (found.steps[2].after, spans(found.steps[2])) == ("b", "w20-21 r21-25")
    assert path(found) == "b:20 z:5"


def test_a_step_of_finally_follows_its_own_target() -> None:
    flow = flow_of(
        {"a": done("a")},
        [record("a", (0, 0, 10)), record("y", (10, 10, 15)), record("z", (15, 15, 20))],
        end=20,
        last={"y": done("y"), "z <- y": done("z")},
    )
    assert [row.after for row in of(flow).steps] == ["", "a", "y"]
    assert path(of(flow)) == "a:10 y:5 z:5"


def test_each_attempt_and_the_waits_between_them_are_shown() -> None:
    condition = StepCondition(phase="Completed", job="f-a-r2", attempts=3)
    records = [
        record("a", (0, 1, 4), "Failed"),
        record("a-r1", (6, 6, 8), "Failed"),
        record("a-r2", (12, 12, 20)),
    ]
    [row] = of(flow_of({"a": condition}, records, end=20)).steps
    assert spans(row) == "q0-1 r1-4 w4-6 r6-8 w8-12 r12-20"
    assert row.attempts == 3
    assert [time.total_seconds() for time in row.times.values()] == [6, 1, 13]


def test_an_attempt_with_a_shortened_name_belongs_to_the_run_before_it() -> None:
    condition = StepCondition(phase="Completed", job="f-x-r2", attempts=3)
    records = [
        record("a", (0, 0, 1), "Failed"),
        record("shortened-12345678-r1", (1, 1, 2), "Failed"),
        record("x-r2", (2, 2, 3)),
    ]
    assert of(flow_of({"a": condition}, records, end=3)).steps[0].attempts == 3


def test_parallel_items_count_once() -> None:
    runs = [
        RunCondition(index=index, phase="Completed", job=f"f-a-{index}", attempts=1)
        for index in range(3)
    ]
    step = Step(name="a", for_each=ForEach(count=3))
    condition = StepCondition(phase="Completed", runs=runs, attempts=3)
    records = [
        record("a-0", (0, 2, 10)),
        record("a-1", (0, 4, 8)),
        record("a-2", (10, 12, 20)),
    ]
    found = of(flow_of({"a": (step, condition)}, records, end=20))
    assert spans(found.steps[0]) == "q0-2 q0-4 r2-10 r4-8 q10-12 r12-20"
    assert seconds(found) == [0, 4, 16]


def test_a_flow_that_runs_has_open_spans() -> None:
    flow = flow_of(
        {
            "a": done("a"),
            "b <- a": StepCondition(phase="Running", job="f-b", attempts=1),
            "c <- a": StepCondition(phase="Pending", job="f-c", attempts=1),
            "d <- a": StepCondition(phase="Waiting", reason="WaitingForTemplate"),
            "e <- b": StepCondition(phase="Waiting"),
        },
        [
            record("a", (0, 0, 10)),
            record("b", (10, 12, None), "Running"),
            record("c", (10, None, None), "Pending"),
        ],
    )
    found = of(flow, now=30.7)
    assert found.is_open and found.end == at(30)
    assert [spans(row) for row in found.steps] == [
        "r0-10", "q10-12 r12-30+", "q10-30+", "w10-30+", "",
    ]  # fmt: skip
    assert path(found) == "a:10 b:20"


def test_a_step_between_two_attempts_waits() -> None:
    retrying = StepCondition(phase="Waiting", reason="Retrying", job="f-a", attempts=1)
    flow = flow_of({"a": retrying}, [record("a", (0, 0, 5), "Failed")])
    assert spans(of(flow, now=9).steps[0]) == "r0-5 w5-9+"


def test_a_step_between_two_items_is_on_the_path() -> None:
    runs = [RunCondition(index=0, phase="Completed", job="f-a-0", attempts=1)]
    step = Step(name="a", for_each=ForEach(count=2, parallelism=1))
    condition = StepCondition(phase="Running", runs=runs, attempts=1)
    records = [record("a-0", (0, 0, 5)), record("b", (0, 0, 5), "Failed")]
    failed = StepCondition(phase="Failed", job="f-b", attempts=1)
    found = of(flow_of({"a": (step, condition), "b": failed}, records), now=6)
    assert spans(found.steps[0]) == "r0-5 w5-6+"
    assert path(found) == "a:6"


def test_a_job_whose_start_was_not_recorded_ran_if_it_completed() -> None:
    flow = flow_of(
        {"a": done("a"), "b": StepCondition(phase="Failed", job="f-b", attempts=1)},
        [record("a", (0, None, 5)), record("b", (0, None, 5), "Aborted")],
        end=5,
    )
    assert [spans(row) for row in of(flow).steps] == ["r0-5", "q0-5"]


def test_a_job_that_ran_less_than_a_second_is_a_span() -> None:
    assert spans(of(flow_of({"a": done("a")}, [record("a", (1, 2, 2))], end=2)).steps[0]) == (
        "w0-1 q1-2 r2-2"
    )


PROBE = Probe(task_status_list=[TaskStatusProbe(task_name="main", phase="Running")])


@pytest.mark.parametrize(
    ("depends_on", "ready"),
    [
        (DependsOn(targets=["a", "b"]), ("b", 20)),
        (DependsOn(targets=["a", "b"], strategy="any"), ("a", 10)),
        (DependsOn(targets=["a", "b"], condition="Running"), ("b", 4)),
        (DependsOn(targets=["b"], probe=PROBE), ("b", 4)),
        (DependsOn(targets=["a"], probe=PROBE), ("a", 10)),
    ],
)
def test_dependencies_are_met_by_their_condition(
    depends_on: DependsOn, ready: tuple[str, float]
) -> None:
    begin = 20 if ready[1] == 20 else 12
    flow = flow_of(
        {"a": done("a"), "b": done("b"), "c": (Step(name="c", depends_on=depends_on), done("c"))},
        [record("a", (0, 2, 10)), record("b", (0, 4, 20)), record("c", (begin, begin, 30))],
        end=30,
    )
    row = of(flow).steps[2]
    assert (row.after, row.ready) == (ready[0], at(ready[1]))


def test_a_retried_flow_starts_at_the_retry() -> None:
    again = StepCondition(phase="Completed", job="f-b-r1", attempts=2, past_attempts=1)
    flow = flow_of(
        {"a": done("a"), "b <- a": again},
        [
            record("a", (-100, -100, -80)),
            record("b", (-80, -80, -50), "Failed"),
            record("b-r1", (1, 2, 10)),
        ],
        end=10,
    )
    found = of(flow)
    assert [spans(row) for row in found.steps] == ["", "w0-1 q1-2 r2-10"]
    assert path(found) == "b:10"


def test_the_time_of_suspensions_is_added_up() -> None:
    waiting = StepCondition(phase="Waiting", reason="Suspended")
    flow = flow_of({"a": waiting}, [], suspended_seconds=30, suspended_at=at(40))
    assert of(flow, now=50).suspended == timedelta(seconds=40)


def test_a_flow_without_times_has_no_timeline() -> None:
    flow = flow_of({"a": StepCondition()}, [], start_time=None)
    assert timeline(flow, now=at(0)) is None


@pytest.mark.parametrize(("end", "duration"), [(None, 15), (9, 4)])
def test_a_flow_of_volcano_takes_its_times_from_the_jobs(
    end: float | None, duration: float
) -> None:
    flow = flow_of({"a": done("a")}, [record("a", (5, 6, 9))], end=end, start_time=None)
    flow = msgspec.structs.replace(
        flow, status=msgspec.structs.replace(flow.status, completion_time=None)
    )
    assert of(flow, now=20).start == at(5)
    assert of(flow, now=20).duration == timedelta(seconds=duration)


def test_times_that_contradict_each_other_stay_within_the_flow() -> None:
    flow = flow_of(
        {"a": done("a"), "b <- a": done("b")},
        [record("a", (-5, 50, 40)), record("b", (10, 8, 99))],
        end=30,
    )
    assert [spans(row) for row in of(flow).steps] == ["q0-30", "r10-30"]
    check_laws(of(flow))


@pytest.mark.parametrize("phase", ["Completed", "Running"])
def test_a_status_with_billions_of_attempts_takes_little_work(phase: str) -> None:
    condition = StepCondition(phase=phase, job="f-a", attempts=2**31 - 1)
    assert of(flow_of({"a": condition}, [record("a", (0, 0, 1))], end=1)).steps[0].attempts == 1


def test_many_dependants_of_many_items_take_little_work() -> None:
    runs = [
        RunCondition(index=index, phase="Completed", job=f"f-a-{index}", attempts=1)
        for index in range(500)
    ]
    items = Step(name="a", for_each=ForEach(count=500))
    records = [record(f"a-{index}", (0, 1, 2)) for index in range(500)]
    steps: dict[str, Any] = {"a": (items, StepCondition(phase="Completed", runs=runs))}
    steps |= {f"b{number} <- a": StepCondition(phase="Waiting") for number in range(500)}
    flow = flow_of(steps, records)
    assert lines_run(lambda: of(flow, now=5)) < 400_000


def test_a_time_is_divided_by_state() -> None:
    known = [
        Span(State.RUNNING, at(4), at(6)),
        Span(State.QUEUED, at(1), at(5)),
        Span(State.RUNNING, at(5), at(8)),
    ]
    times = time_by_state(known, at(0), at(7))
    assert [time.total_seconds() for time in times.values()] == [1, 3, 3]


@pytest.mark.parametrize("has_next_job", [True, False])
def test_a_step_that_failed_before_a_retry_waits_from_the_retry_on(has_next_job: bool) -> None:
    job = {"job": "f-a-r1", "attempts": 2} if has_next_job else {"job": "f-a", "attempts": 1}
    again = StepCondition(phase="Waiting", past_attempts=1, **job)
    records = [record("a", (0, 1, 10), "Failed"), record("a-r1", (55, 55, 57), "Failed")]
    flow = flow_of({"a": again}, records[: 1 + has_next_job], start_time=at(50))
    found = timeline(flow, now=at(60), whole=True)
    assert found is not None
    behind = "w50-55 r55-57 w57-60+" if has_next_job else "w50-60+"
    assert spans(found.steps[0]) == f"q0-1 r1-10 {behind}"


def test_an_approval_waits_until_it_is_answered() -> None:
    ok = Step(name="ok", approval=Approval(), depends_on=DependsOn(targets=["a"]))
    answered = StepCondition(phase="Completed", attempts=1, last_transition_time=at(25))
    flow = flow_of(
        {"a": done("a"), "ok": (ok, answered), "b <- ok": done("b")},
        [record("a", (0, 0, 5)), record("b", (25, 25, 30))],
        end=30,
    )
    found = of(flow)
    assert [spans(row) for row in found.steps] == ["r0-5", "w5-25", "r25-30"]
    assert path(found) == "a:5 ok:20 b:5"


def test_only_child_flows_that_ran_in_the_time_are_drawn() -> None:
    """The flow was retried at second 20; the first child flow has not run again."""
    inner = {"x": done("x")}
    before = flow_of(inner, [record("x", (0, 0, 5))], end=5)
    again = flow_of(inner, [record("x", (20, 20, 25))], end=25, start_time=at(20))
    each = Step(name="a", for_each=ForEach(count=2))
    runs = [RunCondition(index=i, phase="Completed", flow=f"f-a-{i}", attempts=1) for i in (0, 1)]
    outer = flow_of(
        {"a": (each, StepCondition(phase="Completed", runs=runs))}, [], end=26, start_time=at(20)
    )
    found = with_children(of(outer), outer, {"f-a-0": before, "f-a-1": again}, now=at(30))
    assert [row.step for row in found.steps] == ["a", "a/1/x"]
