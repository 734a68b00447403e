"""Families of small flows from random ones that once ended in an unexpected way."""

import pytest

from jobflow.api.flow.control import ForEach, Retry
from jobflow.api.flow.step import Step
from model.acting import NEVER, Script
from model.random_values import CHILD
from model.small_flows import FAILS, NO_SUCH_ITEM, end_of, reasons, step, use_output
from support.plan.steps import after


@pytest.mark.parametrize("end", ["Failed", "Terminated"])
def test_a_job_that_fails_by_itself_during_a_suspension_is_failed(end: str) -> None:
    world = end_of(
        step("a"),
        step("b", retry=Retry(limit=1)),
        commands=((2, "AbortJob"), (8, "ResumeJob")),
        scripts={
            "a": (Script(lasts=3, end=end, obeys=NEVER),),
            "b": (Script(lasts=3, end=end, obeys=NEVER), Script()),
        },
        failure_policy="Continue",
    )
    assert reasons(world) == {"a": f"Job{end}", "b": ""}
    assert set(world.jobs) == {"f-a", "f-b", "f-b-r1"}


@pytest.mark.parametrize("dice", [0, 4, 7])
def test_a_later_item_exists_before_one_whose_create_was_lost(dice: int) -> None:
    steps = [step(name) for name in "abc"]
    loop = step("d", for_each=ForEach(items=["x", "y"]))
    world = end_of(*steps, loop, scripts={}, crashes=dice)
    assert world.flow.status.state.phase == "Succeed"


@pytest.mark.parametrize("parallelism", [None, 1, 2])
@pytest.mark.parametrize("script", [FAILS, (Script(refused=True),)], ids=["fails", "refused"])
@pytest.mark.parametrize("allowed", ["step", "flow"])
def test_every_item_runs_regardless_of_the_ends_of_others(
    allowed: str, script: tuple[Script, ...], parallelism: int | None
) -> None:
    world = end_of(
        step(
            "a",
            for_each=ForEach(count=4, parallelism=parallelism),
            continue_on_failure=True if allowed == "step" else None,
        ),
        scripts={"a": (*script, Script())},
        failure_policy="Continue" if allowed == "flow" else None,
    )
    runs = (world.flow.status.conditions or {})["f-a"].runs or []
    assert [run.phase for run in runs] == ["Failed", "Completed"] * 2
    is_tolerated = allowed == "step" and script == FAILS
    assert world.flow.status.state.phase == ("Succeed" if is_tolerated else "Failed")


@pytest.mark.parametrize("watched", [True, False])
def test_outputs_of_a_job_that_fails_while_it_is_aborted_are_kept_if_watched(watched: bool) -> None:
    last = step("z", patch=use_output("c"))
    world = end_of(
        step("c"),
        finally_=[last],
        commands=((2, "TerminateJob"),),
        scripts={"c": (Script(end="Failed", output={"n": 1}, watched=watched),)},
    )
    assert reasons(world) == {"c": "Cancelled", "z": "" if watched else "ExpressionError"}


@pytest.mark.parametrize("late", [0, 1])
def test_completed_items_stay_if_only_their_names_match_steps_that_run_again(late: int) -> None:
    scripts = [Script(lasts=1), Script(lasts=1)]
    scripts[late] = Script(lasts=3)
    world = end_of(
        step("a", for_each=ForEach(from_='["x", "y"]'), timeout="1s"),
        finally_=[step("y")],
        commands=((6, "RestartJob"),),
        scripts={"a": tuple(scripts), "y": (Script(lasts=1),)},
    )
    assert world.flow.status.state.phase == "Succeed"
    assert set(world.jobs) - {"f-y", "f-y-r1"} == {"f-a-0", "f-a-1", f"f-a-{late}-r1"}


@pytest.mark.parametrize("names", ["acf", "fca"])
def test_a_step_without_items_completes_before_a_stored_failure(names: str) -> None:
    steps = {
        "a": step("a", for_each=ForEach(from_="[]")),
        "c": step("c", for_each=ForEach(items=[])),
        "f": step("f", depends_on=after("a"), when=NO_SUCH_ITEM),
    }
    world = end_of(*[steps[name] for name in names], scripts={})
    assert reasons(world) == {"a": "", "c": "", "f": "ExpressionError"}


@pytest.mark.parametrize(("room", "b"), [(1, ""), (2, "Stopped")])
def test_a_step_with_room_starts_before_a_reference_without_a_value_fails(
    room: int, b: str
) -> None:
    world = end_of(
        step("a"),
        step("b", depends_on=after("a")),
        step("f", depends_on=after("a"), patch=use_output("a")),
        scripts={},
        parallelism=room,
    )
    assert reasons(world) == {"a": "", "b": b, "f": "ExpressionError"}


@pytest.mark.parametrize("retry", ["RestartJob", "RetrySteps a"])
def test_a_child_flow_that_is_retried_is_cancelled_again_without_delay(retry: str) -> None:
    world = end_of(
        Step(name="a", flow=CHILD),
        commands=((4, retry),),
        scripts={"a": (Script(lasts=9),)},
        timeout="2s",
    )
    assert reasons(world) == {"a": "Timeout"}
