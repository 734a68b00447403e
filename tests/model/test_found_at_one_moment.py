"""What random flows once found of things that come at the same moment, and of loops and outputs."""

from __future__ import annotations

import pytest

from jobflow.api.control import Case as Switched
from jobflow.api.control import ForEach, Patch, Repeat, Retry
from jobflow.api.jobflow import DependsOn, Step
from model.acting import DEAF, Script
from model.small import carried, reasons


def test_what_is_known_of_a_target_when_the_time_is_over_is_known_of_what_is_behind_it() -> None:
    """Wherever it stands in `spec.flows`."""
    on_failure = DependsOn(targets=["a", "b"], condition="Failed")
    world = carried(
        Step(name="e", template="t", depends_on=DependsOn(targets=["c"], condition="Failed")),
        Step(name="c", template="t", depends_on=on_failure),
        Step(name="b", template="t", depends_on=DependsOn(targets=["a"], condition="Running")),
        Step(name="a", template="t"),
        Step(name="d", template="t"),
        scripts={"a": (Script(lasts=1),), "b": (Script(lasts=1),), "d": (Script(lasts=9),)},
        timeout="3s",
    )
    assert reasons(world) == {"a": "", "b": "", "c": "NotTaken", "e": "NotTaken", "d": "Timeout"}


def test_what_starts_while_it_is_written_that_there_are_no_items_has_started() -> None:
    """Though what is behind them fails as soon as that is known."""
    no_such = 'steps["a"].items[0].phase == "Completed"'
    behind = DependsOn(targets=["a"])
    world = carried(
        Step(name="a", template="t", for_each=ForEach(from_="[]")),
        Step(name="b", template="t"),
        Step(name="f", template="t", depends_on=behind, when=no_such),
        scripts={},
    )
    assert reasons(world) == {"a": "", "b": "", "f": "ExpressionError"}


@pytest.mark.parametrize("watched", [True, False])
def test_of_a_job_that_fails_though_it_was_to_be_aborted_outputs_are_kept_where_they_are_seen(
    watched: bool,
) -> None:
    last = Step(name="z", template="t", patch=Patch(job_spec={"queue": "q-$(steps.c.outputs.n)"}))
    world = carried(
        Step(name="c", template="t"),
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
        Step(name="a", template="t", for_each=ForEach(from_='["x", "y"]'), timeout="2s"),
        finally_=[Step(name="y", template="t")],
        commands=((6, "RestartJob"),),
        scripts={"a": tuple(scripts), "y": (Script(lasts=1),)},
    )
    assert world.flow.status.state.phase == "Succeed"
    assert {name for name in world.jobs if name.startswith("f-a")} == {
        "f-a-0", "f-a-1", f"f-a-{late}-r1",
    }  # fmt: skip


def test_what_fails_when_the_flow_is_out_of_time_is_not_asked_whether_to_try_again() -> None:
    world = carried(
        Step(name="a", template="t", retry=Retry(limit=2, when="outputs.n > 1")),
        Step(name="b", template="t", depends_on=DependsOn(targets=["a"])),
        Step(name="c", template="t", timeout="1s", retry=Retry(limit=2, when="outputs.n > 1")),
        Step(name="d", template="t"),
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
    bad = Patch(job_spec={"queue": "q-$(steps.a.outputs.n)"})
    behind = DependsOn(targets=["a"])
    world = carried(
        Step(name="a", template="t"),
        Step(name="b", template="t", depends_on=behind),
        Step(name="f", template="t", depends_on=behind, when="true", patch=bad),
        scripts={},
    )
    assert reasons(world) == {"a": "", "b": "", "f": "ExpressionError"}


def test_what_waited_for_room_goes_first_though_the_controller_began_anew() -> None:
    steps = [Step(name=name, template="t") for name in "cba"]
    behind = [Step(name=name, template="t", depends_on=DependsOn(targets=["a"])) for name in "ed"]
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
        *[Step(name=name, template="t") for name in "acde"],
        scripts={"b": (Script(refused=True),)},
        parallelism=2,
    )
    stopped = {"e": "Stopped"}
    assert reasons(world) == {"b": "Refused", "a": "", "c": "", "d": ""} | stopped


def test_an_item_that_begins_may_be_there_before_one_that_is_retried_is_looked_up() -> None:
    world = carried(
        Step(name="a", template="t", for_each=ForEach(items=[3, 2, 1], parallelism=2)),
        commands=((2, "RestartJob"),),
        scripts={"a": (Script(lasts=1), Script(lasts=1, end="Failed"))},
    )
    assert world.flow.status.state.phase == "Succeed"
    assert set(world.jobs) == {"f-a-0", "f-a-1", "f-a-1-r1", "f-a-2"}


def test_nothing_starts_by_the_plan_that_tells_a_failure() -> None:
    """Though what has failed by what another plan has written."""
    no_such = 'steps["a"].items[0].phase == "Completed"'
    world = carried(
        Step(name="a", template="t", for_each=ForEach(from_="[]")),
        Step(name="c", template="t", for_each=ForEach(from_="[]")),
        Step(name="b", template="t", depends_on=DependsOn(targets=["c"])),
        Step(name="f", template="t", depends_on=DependsOn(targets=["a"]), when=no_such),
        scripts={},
    )
    stopped = {"c": "Stopped", "b": "Stopped"}
    assert reasons(world) == {"a": "", "f": "ExpressionError"} | stopped


@pytest.mark.parametrize("names", ["acf", "fca"])
def test_what_has_no_items_has_completed_before_what_another_plan_has_written_fails(
    names: str,
) -> None:
    no_such = 'steps["a"].items[0].phase == "Completed"'
    steps = {
        "a": Step(name="a", template="t", for_each=ForEach(from_="[]")),
        "c": Step(name="c", template="t", for_each=ForEach(items=[])),
        "f": Step(name="f", template="t", depends_on=DependsOn(targets=["a"]), when=no_such),
    }
    world = carried(*[steps[name] for name in names], scripts={})
    assert reasons(world) == {"a": "", "c": "", "f": "ExpressionError"}


NO_VALUE = Patch(job_spec={"queue": "q-$(steps.a.outputs.n)"})


def test_a_reference_without_a_value_is_found_out_once_there_is_room() -> None:
    """What its step decided is written first, and the room is another's by then."""
    last = Step(name="z", patch=NO_VALUE, switch=[Switched(when="true", template="t")])
    world = carried(
        Step(name="a", template="t"),
        finally_=[last, Step(name="y", template="t")],
        scripts={},
        parallelism=1,
    )
    assert reasons(world) == {"a": "", "z": "ExpressionError", "y": ""}


@pytest.mark.parametrize(("room", "b"), [(1, ""), (2, "Stopped")])
def test_what_there_is_room_for_starts_before_a_reference_without_a_value_is_found_out(
    room: int, b: str
) -> None:
    behind = DependsOn(targets=["a"])
    world = carried(
        Step(name="a", template="t"),
        Step(name="b", template="t", depends_on=behind),
        Step(name="f", template="t", depends_on=behind, patch=NO_VALUE),
        scripts={},
        parallelism=room,
    )
    assert reasons(world) == {"a": "", "b": b, "f": "ExpressionError"}


def test_what_is_refused_after_an_attempt_leaves_no_outputs() -> None:
    world = carried(
        Step(name="a", template="t", retry=Retry(limit=1)),
        finally_=[Step(name="z", template="t", patch=NO_VALUE)],
        scripts={"a": (Script(end="Failed", output={"n": 1}), Script(refused=True))},
    )
    assert reasons(world) == {"a": "Refused", "z": "ExpressionError"}


def test_a_daemon_that_is_over_between_two_attempts_leaves_no_outputs() -> None:
    patch = Patch(job_spec={"queue": "q-$(steps.b.outputs.n)"})
    world = carried(
        Step(name="c", template="t", timeout="4s"),
        Step(name="a", template="t"),
        Step(
            name="b",
            template="t",
            depends_on=DependsOn(targets=["a"]),
            retry=Retry(limit=1),
            daemon=True,
        ),
        finally_=[Step(name="y", template="t", patch=patch)],
        scripts={
            "c": (Script(lasts=None),),
            "a": (Script(lasts=1),),
            "b": (Script(end="Failed", output={"n": 1}),),
        },
    )
    assert reasons(world) == {"c": "Timeout", "a": "", "b": "DaemonEnded", "y": "ExpressionError"}


def test_an_item_may_begin_while_pods_are_read_of_what_sets_off_an_abort() -> None:
    world = carried(
        Step(name="a", template="t", for_each=ForEach(items=["x", "y"], parallelism=1)),
        Step(name="d", template="t", repeat=Repeat(until="outputs.n > 1", max=1)),
        scripts={"a": (Script(lasts=1),), "d": (Script(lasts=1, watched=False),)},
        failure_policy="Abort",
    )
    assert reasons(world) == {"a": "FailurePolicy", "d": "ExpressionError"}


def test_a_daemon_between_two_attempts_ends_with_the_flow_that_is_out_of_time() -> None:
    """Though all others are over in that very second."""
    world = carried(
        Step(name="a", template="t", retry=Retry(limit=2), daemon=True),
        Step(name="c", template="t"),
        finally_=[Step(name="z", template="t")],
        scripts={"a": (Script(end="Failed"),), "c": (Script(lasts=7),)},
        timeout="8s",
    )
    assert reasons(world) == {"a": "Timeout", "c": "", "z": ""}
    assert world.flow.status.state.reason == "Timeout"
