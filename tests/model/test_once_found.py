"""Small flows, each of which a random flow once showed to end in an unexpected way."""

import pytest

from jobflow.api.control import Case as Switched
from jobflow.api.control import ForEach, Repeat, Retry
from jobflow.api.jobflow import Step
from model.acting import DEAF, Script
from model.small import carried, reasons, step, uses_output
from support.plan.steps import after

FAILS = (Script(lasts=1, end="Failed"),)


def test_what_sets_off_an_abort_is_not_aborted_by_it() -> None:
    retry = Retry(limit=2, when="outputs.n > 1")
    b = step("b", retry=retry)
    world = carried(b, scripts={"b": FAILS}, failure_policy="Abort")
    assert reasons(world) == {"b": "ExpressionError"}


def test_a_create_that_is_refused_sets_off_an_abort_and_is_told() -> None:
    world = carried(
        step("a", retry=Retry(limit=1)),
        step("b"),
        scripts={"a": (Script(lasts=9),), "b": (Script(refused=True),)},
        failure_policy="Abort",
    )
    assert reasons(world) == {"a": "FailurePolicy", "b": "Refused"}


def test_an_attempt_that_was_ended_for_good_is_not_asked_whether_to_try_again() -> None:
    world = carried(
        step("b", retry=Retry(limit=2, when="outputs.n > 1")),
        step("c"),
        scripts={"b": (Script(lasts=9),), "c": FAILS},
        failure_policy="Abort",
    )
    assert reasons(world) == {"b": "FailurePolicy", "c": "JobFailed"}


def test_outputs_of_a_job_that_completes_though_it_was_to_be_aborted_are_kept() -> None:
    """A step that completed never runs again, so they would be lost for good."""
    last = step("y", patch=uses_output("c"))
    world = carried(
        step("c"),
        finally_=[last],
        commands=((3, "AbortJob"), (6, "ResumeJob")),
        scripts={"c": (Script(lasts=3, output={"n": 0}),)},
    )
    assert world.flow.status.state.phase == "Succeed"


def test_a_retried_loop_goes_on_with_what_has_not_completed() -> None:
    world = carried(
        step("a", for_each=ForEach(items=["x", "y"])),
        step("r", repeat=Repeat(until="outputs.n > 1", max=3)),
        commands=((20, "RestartJob"),),
        scripts={
            "a": (Script(), Script(lasts=1, end="Failed"), Script()),
            "r": (Script(output={"n": 0}), Script(end="Failed"), Script(output={"n": 2})),
        },
        failure_policy="Continue",
    )
    assert world.flow.status.state.phase == "Succeed"
    assert set(world.jobs) == {"f-a-0", "f-a-1", "f-a-1-r1", "f-r-0", "f-r-1", "f-r-1-r1"}


def test_a_last_step_of_its_own_timeout_is_tried_again_though_the_flows_time_is_over() -> None:
    world = carried(
        step("a"),
        finally_=[step("z", retry=Retry(limit=1), timeout="2s")],
        scripts={"a": (Script(lasts=9),), "z": (Script(lasts=9), Script(lasts=1))},
        timeout="3s",
    )
    assert reasons(world) == {"a": "Timeout", "z": ""}
    assert {"f-z", "f-z-r1"} <= set(world.jobs)
    assert world.flow.status.state.reason == "Timeout"


def test_what_the_last_steps_see_of_the_flow_is_how_it_would_end_without_them() -> None:
    """One of them fails before the other decides."""
    bad = uses_output("a")
    world = carried(
        step("a"),
        finally_=[
            step("z", patch=bad),
            step("y", when='flow.phase == "Succeed"'),
            step("x", when='flow.phase == "Failed"'),
        ],
        scripts={},
    )
    assert reasons(world) == {"a": "", "z": "ExpressionError", "y": "", "x": "NotTaken"}
    assert world.flow.status.state.phase == "Failed"


def test_a_repeat_that_came_to_its_most_runs_begins_again_when_it_is_retried() -> None:
    world = carried(
        step("a", repeat=Repeat(until="outputs.n > 1", max=2)),
        commands=((20, "RestartJob"),),
        scripts={"a": (Script(output={"n": 0}), Script(output={"n": 1}), Script(output={"n": 2}))},
    )
    assert world.flow.status.state.phase == "Succeed"
    assert set(world.jobs) == {"f-a-0", "f-a-1", "f-a-0-r1", "f-a-1-r1"}


@pytest.mark.parametrize("end", ["Failed", "Terminated"])
def test_what_fails_by_itself_while_it_is_to_be_aborted_for_a_suspension_has_failed(
    end: str,
) -> None:
    world = carried(
        step("a"),
        step("b", retry=Retry(limit=1)),
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
    steps = [step(name) for name in "abc"]
    each = step("d", for_each=ForEach(items=["x", "y"]))
    world = carried(*steps, each, scripts={}, crashes=dice)
    assert world.flow.status.state.phase == "Succeed"


def test_what_was_between_two_attempts_at_its_end_leaves_no_outputs() -> None:
    last = step("z", patch=uses_output("b"))
    world = carried(
        step("b", retry=Retry(limit=2)),
        finally_=[last],
        scripts={"b": (Script(end="Failed", output={"n": 1}),)},
        timeout="8s",
    )
    assert reasons(world) == {"b": "Timeout", "z": "ExpressionError"}


def test_an_item_that_completes_when_the_flow_is_out_of_time_is_followed_by_none() -> None:
    world = carried(
        step("c"),
        step("a", for_each=ForEach(count=3)),
        step("b"),
        scripts={"c": (Script(lasts=1),), "a": (Script(lasts=7, obeys=3),)},
        timeout="8s",
        parallelism=2,
    )
    assert reasons(world) == {"c": "", "a": "Timeout", "b": "Stopped"}
    assert {name for name in world.jobs if name.startswith("f-a")} == {"f-a-0", "f-a-1"}


def test_a_refusal_may_come_before_it_is_written_that_there_are_no_items() -> None:
    world = carried(
        step("c"),
        step("b", when="true", for_each=ForEach(count=0)),
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
    assert world.flow.status.state.phase == ("Succeed" if allowed == "step" else "Failed")


def test_what_is_known_of_a_target_when_the_time_is_over_is_known_of_what_is_behind_it() -> None:
    """Wherever it stands in `spec.flows`."""
    on_failure = after("a b", condition="Failed")
    world = carried(
        step("e", depends_on=after("c", condition="Failed")),
        step("c", depends_on=on_failure),
        step("b", depends_on=after("a", condition="Running")),
        step("a"),
        step("d"),
        scripts={"a": (Script(lasts=1),), "b": (Script(lasts=1),), "d": (Script(lasts=9),)},
        timeout="3s",
    )
    assert reasons(world) == {"a": "", "b": "", "c": "NotTaken", "e": "NotTaken", "d": "Timeout"}


def test_what_starts_while_it_is_written_that_there_are_no_items_has_started() -> None:
    """Though what is behind them fails as soon as that is known."""
    no_such = 'steps["a"].items[0].phase == "Completed"'
    world = carried(
        step("a", for_each=ForEach(from_="[]")),
        step("b"),
        step("f", depends_on=after("a"), when=no_such),
        scripts={},
    )
    assert reasons(world) == {"a": "", "b": "", "f": "ExpressionError"}


@pytest.mark.parametrize("watched", [True, False])
def test_of_a_job_that_fails_though_it_was_to_be_aborted_outputs_are_kept_where_they_are_seen(
    watched: bool,
) -> None:
    last = step("z", patch=uses_output("c"))
    world = carried(
        step("c"),
        finally_=[last],
        commands=((2, "TerminateJob"),),
        scripts={"c": (Script(end="Failed", output={"n": 1}, watched=watched),)},
    )
    assert reasons(world) == {"c": "Cancelled", "z": "" if watched else "ExpressionError"}


@pytest.mark.parametrize("late", [0, 1])
def test_items_stay_where_only_their_names_are_those_of_steps_that_run_again(late: int) -> None:
    scripts = [Script(lasts=1), Script(lasts=1)]
    scripts[late] = Script(lasts=3)
    world = carried(
        step("a", for_each=ForEach(from_='["x", "y"]'), timeout="2s"),
        finally_=[step("y")],
        commands=((6, "RestartJob"),),
        scripts={"a": tuple(scripts), "y": (Script(lasts=1),)},
    )
    assert world.flow.status.state.phase == "Succeed"
    assert set(world.jobs) - {"f-y", "f-y-r1"} == {"f-a-0", "f-a-1", f"f-a-{late}-r1"}


def test_what_fails_when_the_flow_is_out_of_time_is_not_asked_whether_to_try_again() -> None:
    world = carried(
        step("a", retry=Retry(limit=2, when="outputs.n > 1")),
        step("b", depends_on=after("a")),
        step("c", timeout="1s", retry=Retry(limit=2, when="outputs.n > 1")),
        step("d"),
        scripts={
            "a": (Script(lasts=2, end="Failed"),),
            "c": (Script(lasts=9),),
            "d": (Script(lasts=9),),
        },
        timeout="3s",
    )
    ends = {"a": "JobFailed", "b": "UpstreamFailed", "c": "Timeout", "d": "Timeout"}
    assert reasons(world) == ends


def test_what_is_behind_the_same_step_starts_though_a_reference_has_no_value_a_plan_later() -> None:
    bad = uses_output("a")
    world = carried(
        step("a"),
        step("b", depends_on=after("a")),
        step("f", depends_on=after("a"), when="true", patch=bad),
        scripts={},
    )
    assert reasons(world) == {"a": "", "b": "", "f": "ExpressionError"}


def test_what_waited_for_room_goes_first_though_the_controller_began_anew() -> None:
    steps = [step(name) for name in "cba"]
    behind = [step(name, depends_on=after("a")) for name in "ed"]
    world = carried(
        *behind,
        *steps,
        scripts={"c": (Script(lasts=90, obeys=DEAF),), **dict.fromkeys("edba", (Script(lasts=1),))},
        commands=((0, "SuspendFlow"), (1, "AbortJob"), (2, "SuspendFlow")),
        crashes=1,
        parallelism=1,
    )
    assert world.flow.status.state.phase == "Succeed"


def test_who_waited_for_room_and_is_refused_went_first_all_the_same() -> None:
    world = carried(
        Step(name="b", switch=[Switched(when="true", template="t")]),
        *[step(name) for name in "acde"],
        scripts={"b": (Script(refused=True),)},
        parallelism=2,
    )
    assert reasons(world) == {"b": "Refused", "a": "", "c": "", "d": "", "e": "Stopped"}


def test_an_item_that_begins_may_be_there_before_one_that_is_retried_is_looked_up() -> None:
    world = carried(
        step("a", for_each=ForEach(items=[3, 2, 1], parallelism=2)),
        commands=((2, "RestartJob"),),
        scripts={"a": (Script(lasts=1), Script(lasts=1, end="Failed"))},
    )
    assert world.flow.status.state.phase == "Succeed"
    assert set(world.jobs) == {"f-a-0", "f-a-1", "f-a-1-r1", "f-a-2"}


def test_nothing_starts_by_the_plan_that_tells_a_failure() -> None:
    """Though what has failed by what another plan has written."""
    no_such = 'steps["a"].items[0].phase == "Completed"'
    world = carried(
        step("a", for_each=ForEach(from_="[]")),
        step("c", for_each=ForEach(from_="[]")),
        step("b", depends_on=after("c")),
        step("f", depends_on=after("a"), when=no_such),
        scripts={},
    )
    assert reasons(world) == {"a": "", "f": "ExpressionError", "c": "Stopped", "b": "Stopped"}


@pytest.mark.parametrize("names", ["acf", "fca"])
def test_what_has_no_items_has_completed_before_what_another_plan_has_written_fails(
    names: str,
) -> None:
    no_such = 'steps["a"].items[0].phase == "Completed"'
    steps = {
        "a": step("a", for_each=ForEach(from_="[]")),
        "c": step("c", for_each=ForEach(items=[])),
        "f": step("f", depends_on=after("a"), when=no_such),
    }
    world = carried(*[steps[name] for name in names], scripts={})
    assert reasons(world) == {"a": "", "c": "", "f": "ExpressionError"}


def test_a_reference_without_a_value_is_found_out_once_there_is_room() -> None:
    """What its step decided is written first, and the room is another's by then."""
    last = Step(name="z", patch=uses_output("a"), switch=[Switched(when="true", template="t")])
    world = carried(step("a"), finally_=[last, step("y")], scripts={}, parallelism=1)
    assert reasons(world) == {"a": "", "z": "ExpressionError", "y": ""}


@pytest.mark.parametrize(("room", "b"), [(1, ""), (2, "Stopped")])
def test_what_there_is_room_for_starts_before_a_reference_without_a_value_is_found_out(
    room: int, b: str
) -> None:
    world = carried(
        step("a"),
        step("b", depends_on=after("a")),
        step("f", depends_on=after("a"), patch=uses_output("a")),
        scripts={},
        parallelism=room,
    )
    assert reasons(world) == {"a": "", "b": b, "f": "ExpressionError"}


def test_what_is_refused_after_an_attempt_leaves_no_outputs() -> None:
    world = carried(
        step("a", retry=Retry(limit=1)),
        finally_=[step("z", patch=uses_output("a"))],
        scripts={"a": (Script(end="Failed", output={"n": 1}), Script(refused=True))},
    )
    assert reasons(world) == {"a": "Refused", "z": "ExpressionError"}


def test_a_daemon_that_is_over_between_two_attempts_leaves_no_outputs() -> None:
    patch = uses_output("b")
    world = carried(
        step("c", timeout="4s"),
        step("a"),
        step("b", depends_on=after("a"), retry=Retry(limit=1), daemon=True),
        finally_=[step("y", patch=patch)],
        scripts={
            "c": (Script(lasts=None),),
            "a": (Script(lasts=1),),
            "b": (Script(end="Failed", output={"n": 1}),),
        },
    )
    assert reasons(world) == {"c": "Timeout", "a": "", "b": "DaemonEnded", "y": "ExpressionError"}


def test_an_item_may_begin_while_pods_are_read_of_what_sets_off_an_abort() -> None:
    world = carried(
        step("a", for_each=ForEach(items=["x", "y"], parallelism=1)),
        step("d", repeat=Repeat(until="outputs.n > 1", max=1)),
        scripts={"a": (Script(lasts=1),), "d": (Script(lasts=1, watched=False),)},
        failure_policy="Abort",
    )
    assert reasons(world) == {"a": "FailurePolicy", "d": "ExpressionError"}


def test_a_daemon_between_two_attempts_ends_with_the_flow_that_is_out_of_time() -> None:
    """Though all others are over in that very second."""
    world = carried(
        step("a", retry=Retry(limit=2), daemon=True),
        step("c"),
        finally_=[step("z")],
        scripts={"a": (Script(end="Failed"),), "c": (Script(lasts=7),)},
        timeout="8s",
    )
    assert reasons(world) == {"a": "Timeout", "c": "", "z": ""}
    assert world.flow.status.state.reason == "Timeout"
