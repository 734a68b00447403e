"""Running times and outputs learned from flows, and the time that a running flow has left."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from jobflow.api.flow.control import Case, ForEach, Repeat
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import JobRecord, JobRunningHistory, RunCondition, StepCondition
from jobflow.api.flow.step import DependsOn, Step
from jobflow.core.timelines.time_left import History, NoEstimate, TimeLeft, learn, time_left
from support.plan.flow_statuses import START, TAKEN, several

TEN = History({"t": [10.0] * 10, "u": [20.0, 30.0]})
ONLY_T = History({"t": [10.0, 20.0, 30.0, 40.0, 50.0]})


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def record(
    job: str, state: str = "Completed", *, began: float | None = 0, ended: float | None = None
) -> JobRecord:
    histories = [JobRunningHistory(state="Pending", start_timestamp=START)]
    if began is not None:
        histories.append(JobRunningHistory(state="Running", start_timestamp=at(began)))
    return JobRecord(
        name=job,
        state=state,
        start_timestamp=START,
        end_timestamp=None if ended is None else at(ended),
        running_histories=histories,
    )


def step(name: str, template: str = "t", after: str = "", **fields: Any) -> Step:
    if after:
        fields["depends_on"] = DependsOn(targets=after.split(), **fields.pop("depends_on", {}))
    return Step(name=name, template=template, **fields)


def running(
    *steps: Step | tuple[Step, StepCondition],
    records: tuple[JobRecord, ...] = (),
    last: tuple[Step, ...] = (),
    **fields: Any,
) -> JobFlow:
    """A flow that runs; a step without a condition waits."""
    waiting = StepCondition(phase="Waiting")
    pairs = [each if isinstance(each, tuple) else (each, waiting) for each in steps]
    status = {"job_status_list": [*records], **fields.pop("status", {})}
    return several(pairs, last=[(each, waiting) for each in last], status=status, **fields)


def left(flow: JobFlow, history: History = TEN, now: float = 0) -> TimeLeft:
    found = time_left(flow, history, now=at(now))
    assert isinstance(found, TimeLeft)
    return found


def why_unknown(flow: JobFlow) -> str:
    found = time_left(flow, TEN, now=START)
    assert isinstance(found, NoEstimate)
    return found.why


def seconds(found: TimeLeft) -> tuple[float, float]:
    return found.low.total_seconds(), found.high.total_seconds()


def test_completed_jobs_teach_the_running_time_of_their_template() -> None:
    failed_first = StepCondition(phase="Completed", job="f-a-r1", attempts=2)
    switch = step("b", switch=[Case(when="x", template="u"), Case(template="v")])
    flow = running(
        (step("a"), failed_first),
        (switch, StepCondition(phase="Completed", job="f-b", attempts=1, decisions=TAKEN)),
        (step("c"), StepCondition(phase="Running", job="f-c", attempts=1)),
        records=(
            record("f-a", "Failed", ended=3),
            record("f-a-r1", began=2, ended=7),
            record("f-b", began=1, ended=9),
            record("f-c", "Running"),
        ),
    )
    assert learn([flow, flow]).seconds == {"t": [5.0, 5.0], "v": [8.0, 8.0]}


def taught(*runs: RunCondition, step: str = "a", ended: float = 0) -> JobFlow:
    """A flow that has ended, whose step has these runs."""
    condition = StepCondition(phase="Completed", runs=[*runs])
    repeating = Step(name=step, template="t", repeat=Repeat(max=9))
    return running((repeating, condition), status={"completion_time": at(ended)})


def run(index: int, n: int, phase: str = "Completed") -> RunCondition:
    return RunCondition(index=index, phase=phase, outputs={"n": n})


@pytest.mark.parametrize(
    ("step", "index", "n"),
    [("a", 0, 3), ("a", 1, 2), ("a", None, 3), ("b", 1, 4), ("new", 0, 3), ("new", 5, 4)],
)
def test_outputs_are_those_of_the_step_and_the_item_that_ended_last(
    step: str, index: int | None, n: int
) -> None:
    flows = (
        taught(run(0, 1), run(1, 2), ended=1),
        taught(run(0, 3), run(1, 9, "Failed"), ended=2),
        taught(run(2, 4), step="b", ended=3),
    )
    assert learn(flows).outputs_of("t", step, index) == {"n": n}
    assert learn(flows).outputs_of("u", step, index) is None


def test_a_job_of_less_than_a_second_is_learned() -> None:
    done = StepCondition(phase="Completed", job="f-a", attempts=1)
    flow = running((step("a"), done), records=(record("f-a", began=2, ended=2),))
    assert learn([flow]).seconds == {"t": [0.0]}


@pytest.mark.parametrize(("share", "time"), [(0.0, 10), (0.1, 10), (0.5, 30), (0.9, 50), (1, 50)])
def test_a_quantile_is_a_time_that_occurred(share: float, time: float) -> None:
    assert ONLY_T.quantile("t", share) == time
    assert ONLY_T.quantile("x", share) is None


def test_the_longest_chain_and_then_finally_are_left() -> None:
    flow = running(step("a"), step("b", after="a"), step("c", "u"), last=(step("z"),))
    assert left(flow) == TimeLeft(timedelta(seconds=30), timedelta(seconds=40), 2)


def test_the_longest_chain_in_finally_is_left() -> None:
    flow = running(step("a"), last=(step("y"), step("z", after="y"), step("x")))
    assert seconds(left(flow)) == (30, 30)


def test_the_range_is_between_two_quantiles() -> None:
    assert seconds(left(running(step("a"), step("b", after="a")), ONLY_T)) == (20, 100)


def test_a_job_that_runs_has_the_rest_left() -> None:
    now = StepCondition(phase="Running", job="f-a", attempts=1)
    flow = running((step("a"), now), records=(record("f-a", "Running", began=2),))
    assert seconds(left(flow, now=6.7)) == (6, 6)
    assert not left(flow, now=6).at_least
    assert left(flow, now=60).at_least, "it runs longer than any before"
    assert seconds(left(flow, now=60)) == (0, 0)


def test_a_queued_job_waits_for_room() -> None:
    now = StepCondition(phase="Pending", job="f-a", attempts=1)
    flow = running((step("a"), now), records=(record("f-a", "Pending", began=None),))
    assert (seconds(left(flow, now=6)), left(flow, now=6).at_least) == ((10, 10), True)


def test_the_delay_of_a_retry_is_added() -> None:
    now = StepCondition(phase="Waiting", job="f-a", attempts=1, next_attempt_time=at(30))
    assert seconds(left(running((step("a"), now)), now=10)) == (30, 30)


@pytest.mark.parametrize(
    ("parallelism", "whole"), [({}, 10), ({"parallelism": 2}, 20), ({"parallelism": 1}, 30)]
)
def test_items_run_in_turns(parallelism: dict[str, int], whole: float) -> None:
    items = step("a", for_each=ForEach(count=3, **parallelism))
    assert left(running(items)) == TimeLeft(*[timedelta(seconds=whole)] * 2, 10)


def test_only_items_that_have_not_ended_are_left() -> None:
    runs = [
        RunCondition(index=0, phase="Completed", job="f-a-0", attempts=1),
        RunCondition(index=1, phase="Running", job="f-a-1", attempts=1),
    ]
    condition = StepCondition(phase="Running", runs=runs, attempts=2)
    items = step("a", for_each=ForEach(count=4, parallelism=1))
    flow = running((items, condition), records=(record("f-a-1", "Running"),))
    assert seconds(left(flow, now=4)) == (26, 26)


def test_items_that_are_not_known_and_repeats_take_at_least_one_run() -> None:
    items = step("a", for_each=ForEach(from_="params.x"))
    repeat = step("a", repeat=Repeat(until="false", max=2))
    for flow in (running(items), running(repeat)):
        assert (seconds(left(flow)), left(flow).at_least) == ((10, 10), True)
    runs = [RunCondition(index=index, phase="Completed") for index in range(1)]
    last = (repeat, StepCondition(phase="Running", runs=runs))
    assert (seconds(left(running(last))), left(running(last)).at_least) == ((10, 10), False)


def test_the_parallelism_of_the_flow_divides_the_work() -> None:
    flow = running(*(step(name) for name in "abcd"), parallelism=2)
    assert (seconds(left(flow)), left(flow).at_least) == ((20, 20), True)


def test_daemons_handlers_of_failures_and_ended_steps_take_no_time() -> None:
    flow = running(
        step("a", daemon=True),
        (step("b", "u"), StepCondition(phase="Completed")),
        step("c", "u", after="b", depends_on={"condition": "Failed"}),
        step("d", after="a b"),
    )
    assert left(flow) == TimeLeft(timedelta(seconds=10), timedelta(seconds=10), 10)


@pytest.mark.parametrize(
    ("depends_on", "whole"),
    [({}, 20 + 10), ({"strategy": "any"}, 20), ({"condition": "Running"}, 20)],
)
def test_a_step_starts_when_its_targets_let_it(depends_on: dict[str, str], whole: float) -> None:
    history = History({"t": [10.0], "u": [20.0]})
    flow = running(step("a"), step("b", "u"), step("c", after="a b", depends_on=depends_on))
    assert seconds(left(flow, history)) == (whole, whole)


def test_a_switch_that_has_not_chosen_takes_its_shortest_or_longest_case() -> None:
    cases = [Case(when="x", template="t"), Case(template="u")]
    assert left(running(step("a", switch=cases))).runs == 2
    assert seconds(left(running(step("a", switch=cases)))) == (10, 30)
    chosen = (step("a", switch=cases), StepCondition(phase="Waiting", decisions=TAKEN))
    assert seconds(left(running(chosen))) == (20, 30)


def test_a_template_that_never_completed_is_named() -> None:
    found = left(running(step("a"), step("b", "new", after="a")))
    assert (found.unknown, found.at_least, seconds(found)) == (("b",), True, (10, 10))


WAITS = StepCondition(
    phase="Waiting", reason="WaitingForTemplate", message="waits for the JobTemplate u"
)
REFUSED = StepCondition(phase="Waiting", reason="CreateRefused", message="exceeded quota")


@pytest.mark.parametrize(
    ("flow", "why"),
    [
        (running(step("b", "new")), "no job of the remaining templates has completed before"),
        (running(step("a"), status={"suspended_at": START}), "the flow is suspended"),
        (running(step("a"), phase="Terminating"), "the flow is being ended"),
        (running(step("a"), phase="Succeed"), "the flow has ended"),
        (running(step("a"), status={"start_time": None}), "the flow has not started"),
        (running(step("a"), (step("b"), WAITS)), "step b waits for the JobTemplate u"),
        (running((step("b"), REFUSED)), "step b waits (CreateRefused): exceeded quota"),
    ],
)
def test_a_flow_that_waits_for_somebody_has_no_estimate(flow: JobFlow, why: str) -> None:
    assert why_unknown(flow) == why
