"""The sentences of `jobflow why FLOW STEP/INDEX`, for handwritten statuses."""

import pytest
from msgspec.structs import replace as changed

from jobflow.api.flow.by_hand import ByHand
from jobflow.api.flow.control import ForEach, Repeat
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import Decisions, StepCondition
from jobflow.api.flow.step import DependsOn, Step
from jobflow.core.explain.explain import explain, explain_step, list_queued_jobs
from jobflow.core.explain.item import describe_unknown_item
from jobflow.core.explain.scheduling import SchedulingFacts
from jobflow.display.tree import Tree
from support.plan.flow_statuses import FAILURE, NOW, START, items, one, repeat, run, several

FILES = Step(name="a", for_each=ForEach(items=[{"file": "a.txt"}, {"file": "x" * 200}]))


def why(flow: JobFlow, index: int, step: str = "a") -> list[str]:
    """Return the sentences."""
    return list(explain_step(flow, step, index=index, now=NOW).sentences)


def test_a_failed_item_names_its_log() -> None:
    failed = run(1, "Failed", reason="JobFailed", message="exit code 3", failure=FAILURE)
    flow = one(FILES, StepCondition(phase="Running", runs=[run(0, "Running"), failed]))
    assert why(flow, 1) == [
        "Step a/1 failed 1m13s ago (12:00:02 UTC, JobFailed): exit code 3.",
        "See its log: `jobflow logs f a/1`.",
    ]


def test_the_failed_step_names_the_log_of_its_item() -> None:
    failed = run(1, "Failed", reason="JobFailed", message="exit code 3", failure=FAILURE)
    condition = StepCondition(
        phase="Failed",
        reason="JobFailed",
        message="item 1: exit code 3",
        job="f-a-1",
        runs=[run(0, "Completed"), failed],
    )
    last = explain_step(one(FILES, condition), "a", now=NOW).sentences[-1]
    assert last == "See its log: `jobflow logs f a/1`."


def test_a_running_item_has_a_job_and_its_value() -> None:
    flow = one(FILES, StepCondition(phase="Running", runs=[run(0, "Running"), run(1, "Running")]))
    assert why(flow, 0) == [
        "Step a/0 has been Running for 1m15s (since 12:00:00 UTC) as the job f-a-0.",
        'Its item: {"file":"a.txt"}.',
    ]
    assert len(why(flow, 1)) == 1, "a long item is left out"


def test_a_run_of_a_repeat_is_explained() -> None:
    assert why(repeat("Completed Running"), 0) == [
        "Step a/0 completed 1m13s ago (12:00:02 UTC) after 2s.",
        'Its outputs: {"accuracy":0.9}.',
    ]


def test_an_item_waits_for_the_targets_of_its_step() -> None:
    step = Step(name="a", for_each=ForEach(count=3), depends_on=DependsOn(targets=["z"]))
    flow = several(
        [
            (Step(name="z"), StepCondition(phase="Running", job="f-z", attempts=1)),
            (step, StepCondition(phase="Waiting", message="waits for z (Running)")),
        ]
    )
    assert why(flow, 2) == [
        "Step a/2 has been waiting for z (Running) to complete.",
        "Step z has been Running for 1m15s (since 12:00:00 UTC) as the job f-z.",
    ]


def test_an_item_waits_for_its_turn() -> None:
    flow = items("Completed Running", 9, message="1 of 9 items have ended, 1 under way")
    assert why(flow, 8) == [
        "Step a/8 has been Waiting: it waits for its turn; a is Running: 1 of 9 items have ended, "
        "1 under way."
    ]


def scaled(flow: JobFlow, step: str) -> JobFlow:
    order = ByHand(step=step, action="ScaleFlow", parallelism=4, by="ann", comment="at night")
    return changed(flow, status=changed(flow.status, by_hand=[order]))


def test_an_item_that_waits_and_its_step_name_the_limit_and_who_has_set_it() -> None:
    step = Step(name="a", for_each=ForEach(count=9, parallelism=1))
    flow = one(step, StepCondition(phase="Running", runs=[run(0, "Running")]))
    assert "it waits for its turn (at most 1 at once); a is Running" in why(flow, 8)[0]
    flow, limit = scaled(flow, "a"), "at most 4 at once, set by ann: at night"
    assert f"it waits for its turn ({limit}); a is Running" in why(flow, 8)[0]
    assert f"It runs {limit}." in explain_step(flow, "a", now=NOW).sentences
    [running] = [text for text in explain(flow, now=NOW).sentences if "Step a" in text]
    assert limit in running
    _, line = Tree(flow).lines(NOW, 160)
    assert line.plain.endswith(f"0/9 items done, 1 running, {limit}")


def test_a_scaled_flow_names_its_limit_until_its_end() -> None:
    waits = StepCondition(phase="Waiting", reason="Parallelism", message="waits for room")
    flow, limit = scaled(one(Step(name="a"), waits), ""), "at most 4 at once, set by ann: at night"
    assert f"The flow runs {limit}." in explain_step(flow, "a", now=NOW).sentences
    told = f"Step a waits until the flow runs fewer jobs ({limit})."
    assert told in explain(flow, now=NOW).sentences
    assert Tree(flow).lines(NOW, 160)[0].plain.endswith(limit)
    done = scaled(one(Step(name="a"), StepCondition(phase="Completed"), "Succeed"), "")
    assert not any("at once" in line.plain for line in Tree(done).lines(NOW, 160))


def test_an_item_of_an_ended_step_never_starts() -> None:
    flow = items("Failed", 9, "Failed", reason="JobFailed", message="item 0: exit code 3")
    assert why(flow, 8) == [
        "Step a/8 was skipped: it had not started; a is Failed (JobFailed): item 0: exit code 3."
    ]


def test_only_jobs_of_the_item_are_asked_about() -> None:
    flow = items("Pending Pending", 2)
    [job] = list_queued_jobs(flow, "a", index=1, now=NOW)
    assert (job.name, job.index) == ("f-a-1", 1)
    facts = SchedulingFacts({"a": ["Job f-a-1 waits in queue research."]})
    explanation = explain_step(flow, "a", index=1, now=NOW, facts=facts)
    assert explanation.sentences == (
        f"Step a/1 has been Pending for 1m15s (since {START:%H:%M:%S} UTC) as the job f-a-1: "
        "Volcano has not started it yet.",
        "Job f-a-1 waits in queue research.",
    )


FROM = Step(name="a", for_each=ForEach(from_="params.list"))


@pytest.mark.parametrize(
    ("step", "condition", "number", "message"),
    [
        (FILES, StepCondition(), "1", ""),
        (FILES, StepCondition(), "2", 'no item "2": it has 2 items, 0 to 1'),
        (FILES, StepCondition(), "-1", 'no item "-1": it has 2 items, 0 to 1'),
        (FILES, StepCondition(), "", 'no item "": it has 2 items, 0 to 1'),
        (FILES, StepCondition(), "9" * 5000, f'no item "{"9" * 5000}": it has 2 items, 0 to 1'),
        (FROM, StepCondition(decisions=Decisions(items=[7])), "0", ""),
        (FROM, StepCondition(decisions=Decisions(items=[7])), "1", '"1": it has 1 item, 0'),
        (FROM, StepCondition(decisions=Decisions(items=[])), "0", 'no item "0": none exists'),
        (
            FROM,
            StepCondition(phase="Waiting"),
            "0",
            "no items yet: they are computed once its dependencies are met",
        ),
        (
            FROM,
            StepCondition(phase="Skipped"),
            "0",
            "no items: it is Skipped, and they were never computed",
        ),
        (
            Step(name="a", repeat=Repeat(until="true", max=9)),
            StepCondition(runs=[run(0, "Completed"), run(1, "Running")]),
            "2",
            'no run "2": it has 2 runs, 0 to 1',
        ),
        (
            Step(name="a", repeat=Repeat(until="true", max=9)),
            StepCondition(),
            "0",
            'no run "0": none has started',
        ),
    ],
)
def test_an_unknown_item_is_an_error(
    step: Step, condition: StepCondition, number: str, message: str
) -> None:
    error = describe_unknown_item(one(step, condition), step, number)
    assert bool(error) == bool(message)
    assert error.endswith(message)
