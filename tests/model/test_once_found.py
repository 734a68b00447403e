"""What random flows once found, as small as it was made."""

from __future__ import annotations

import pytest

from jobflow.api.control import ForEach, Patch, Repeat, Retry
from jobflow.api.jobflow import Step
from model.acting import DEAF, Script
from model.small import carried, reasons

FAILS = (Script(lasts=1, end="Failed"),)


def test_what_sets_off_an_abort_is_not_aborted_by_it() -> None:
    retry = Retry(limit=2, when="outputs.n > 1")
    b = Step(name="b", template="t", retry=retry)
    world = carried(b, scripts={"b": FAILS}, failure_policy="Abort")
    assert reasons(world) == {"b": "ExpressionError"}


def test_a_create_that_is_refused_sets_off_an_abort_and_is_told() -> None:
    world = carried(
        Step(name="a", template="t", retry=Retry(limit=1)),
        Step(name="b", template="t"),
        scripts={"a": (Script(lasts=9),), "b": (Script(refused=True),)},
        failure_policy="Abort",
    )
    assert reasons(world) == {"a": "FailurePolicy", "b": "Refused"}


def test_an_attempt_that_was_ended_for_good_is_not_asked_whether_to_try_again() -> None:
    world = carried(
        Step(name="b", template="t", retry=Retry(limit=2, when="outputs.n > 1")),
        Step(name="c", template="t"),
        scripts={"b": (Script(lasts=9),), "c": FAILS},
        failure_policy="Abort",
    )
    assert reasons(world) == {"b": "FailurePolicy", "c": "JobFailed"}


def test_outputs_of_a_job_that_completes_though_it_was_to_be_aborted_are_kept() -> None:
    """A step that completed never runs again, so they would be lost for good."""
    last = Step(name="y", template="t", patch=Patch(job_spec={"queue": "q-$(steps.c.outputs.n)"}))
    world = carried(
        Step(name="c", template="t"),
        finally_=[last],
        commands=((3, "AbortJob"), (6, "ResumeJob")),
        scripts={"c": (Script(lasts=3, output={"n": 0}),)},
    )
    assert world.flow.status.state.phase == "Succeed"


def test_a_retried_loop_goes_on_with_what_has_not_completed() -> None:
    world = carried(
        Step(name="a", template="t", for_each=ForEach(items=["x", "y"])),
        Step(name="r", template="t", repeat=Repeat(until="outputs.n > 1", max=3)),
        commands=((20, "RestartJob"),),
        scripts={
            "a": (Script(), Script(lasts=1, end="Failed"), Script()),
            "r": (Script(output={"n": 0}), Script(end="Failed"), Script(output={"n": 2})),
        },
        failure_policy="Continue",
    )
    assert world.flow.status.state.phase == "Succeed"
    names = {"f-a-0", "f-a-1", "f-a-1-r1", "f-r-0", "f-r-1", "f-r-1-r1"}
    assert set(world.jobs) == names


def test_a_last_step_of_its_own_timeout_is_tried_again_though_the_flows_time_is_over() -> None:
    world = carried(
        Step(name="a", template="t"),
        finally_=[Step(name="z", template="t", retry=Retry(limit=1), timeout="2s")],
        scripts={"a": (Script(lasts=9),), "z": (Script(lasts=9), Script(lasts=1))},
        timeout="3s",
    )
    assert reasons(world) == {"a": "Timeout", "z": ""}
    assert {"f-z", "f-z-r1"} <= set(world.jobs)
    assert world.flow.status.state.reason == "Timeout"


def test_what_the_last_steps_see_of_the_flow_is_how_it_would_end_without_them() -> None:
    """One of them fails before the other decides."""
    bad = Patch(job_spec={"queue": "q-$(steps.a.outputs.n)"})
    world = carried(
        Step(name="a", template="t"),
        finally_=[
            Step(name="z", template="t", patch=bad),
            Step(name="y", template="t", when='flow.phase == "Succeed"'),
            Step(name="x", template="t", when='flow.phase == "Failed"'),
        ],
        scripts={},
    )
    assert reasons(world) == {"a": "", "z": "ExpressionError", "y": "", "x": "NotTaken"}
    assert world.flow.status.state.phase == "Failed"


def test_a_repeat_that_came_to_its_most_runs_begins_again_when_it_is_retried() -> None:
    world = carried(
        Step(name="a", template="t", repeat=Repeat(until="outputs.n > 1", max=2)),
        commands=((20, "RestartJob"),),
        scripts={"a": (Script(output={"n": 0}), Script(output={"n": 1}), Script(output={"n": 2}))},
    )
    assert world.flow.status.state.phase == "Succeed"
    assert set(world.jobs) == {"f-a-0", "f-a-1", "f-a-0-r1", "f-a-1-r1"}


def test_a_daemon_that_a_suspension_has_aborted_is_over_when_all_others_are() -> None:
    world = carried(
        Step(name="d", template="t", daemon=True),
        Step(name="a", template="t"),
        commands=((2, "AbortJob"), (8, "ResumeJob")),
        scripts={"d": (Script(lasts=None),), "a": (Script(lasts=5, obeys=DEAF),)},
    )
    assert reasons(world) == {"d": "DaemonEnded", "a": ""}
    assert world.flow.status.state.phase == "Succeed"
    assert set(world.jobs) == {"f-d", "f-a"}


@pytest.mark.parametrize("end", ["Failed", "Terminated"])
def test_what_fails_by_itself_while_it_is_to_be_aborted_for_a_suspension_has_failed(
    end: str,
) -> None:
    world = carried(
        Step(name="a", template="t"),
        Step(name="b", template="t", retry=Retry(limit=1)),
        commands=((2, "AbortJob"), (8, "ResumeJob")),
        scripts={
            "a": (Script(lasts=3, end=end, obeys=DEAF),),
            "b": (Script(lasts=3, end=end, obeys=DEAF), Script()),
        },
        failure_policy="Continue",
    )
    assert reasons(world) == {"a": f"Job{end}", "b": ""}
    assert set(world.jobs) == {"f-a", "f-b", "f-b-r1"}


@pytest.mark.parametrize("dice", [0, 4, 7])
def test_a_later_item_may_be_there_before_an_earlier_one_whose_create_was_lost(dice: int) -> None:
    steps = [Step(name=name, template="t") for name in "abc"]
    each = Step(name="d", template="t", for_each=ForEach(items=["x", "y"]))
    world = carried(*steps, each, scripts={}, crashes=dice)
    assert world.flow.status.state.phase == "Succeed"


def test_what_was_between_two_attempts_at_its_end_leaves_no_outputs() -> None:
    last = Step(name="z", template="t", patch=Patch(job_spec={"queue": "q-$(steps.b.outputs.n)"}))
    world = carried(
        Step(name="b", template="t", retry=Retry(limit=2)),
        finally_=[last],
        scripts={"b": (Script(end="Failed", output={"n": 1}),)},
        timeout="8s",
    )
    assert reasons(world) == {"b": "Timeout", "z": "ExpressionError"}


def test_an_item_that_completes_when_the_flow_is_out_of_time_is_followed_by_none() -> None:
    world = carried(
        Step(name="c", template="t"),
        Step(name="a", template="t", for_each=ForEach(count=3)),
        Step(name="b", template="t"),
        scripts={"c": (Script(lasts=1),), "a": (Script(lasts=7, obeys=3),)},
        timeout="8s",
        parallelism=2,
    )
    assert reasons(world) == {"c": "", "a": "Timeout", "b": "Stopped"}
    assert {name for name in world.jobs if name.startswith("f-a")} == {"f-a-0", "f-a-1"}


def test_a_refusal_may_come_before_it_is_written_that_there_are_no_items() -> None:
    world = carried(
        Step(name="c", template="t"),
        Step(name="b", template="t", when="true", for_each=ForEach(count=0)),
        scripts={"c": (Script(refused=True),)},
    )
    assert reasons(world) == {"c": "Refused", "b": "Stopped"}


@pytest.mark.parametrize("parallelism", [None, 1, 2])
@pytest.mark.parametrize("script", [FAILS, (Script(refused=True),)], ids=["fails", "refused"])
@pytest.mark.parametrize("allowed", ["step", "flow"])
def test_every_item_runs_whatever_the_others_end_as(
    allowed: str, script: tuple[Script, ...], parallelism: int | None
) -> None:
    world = carried(
        Step(
            name="a",
            template="t",
            for_each=ForEach(count=4, parallelism=parallelism),
            continue_on_failure=True if allowed == "step" else None,
        ),
        scripts={"a": (*script, Script())},
        failure_policy="Continue" if allowed == "flow" else None,
    )
    runs = (world.flow.status.conditions or {})["f-a"].runs or []
    assert [run.phase for run in runs] == ["Failed", "Completed"] * 2
    assert world.flow.status.state.phase == ("Succeed" if allowed == "step" else "Failed")
