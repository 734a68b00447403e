"""What random flows once found, as small as it was made."""

from __future__ import annotations

from typing import Any

import pytest

from jobflow.api.control import Case as Switched
from jobflow.api.control import ForEach, Patch, Repeat, Retry
from jobflow.api.jobflow import DependsOn, JobFlow, JobFlowSpec, Step
from jobflow.api.meta import ObjectMeta
from model.acting import DEAF, Script
from model.carrying import Carried, Case
from model.random_flows import TEMPLATES
from worlds import FLOW_UID, NOW, World

FAILS = (Script(lasts=1, end="Failed"),)


def carried(
    *steps: Step,
    commands: tuple[tuple[int, str], ...] = (),
    scripts: dict[str, tuple[Script, ...]],
    crashes: int | None = None,
    **spec: Any,
) -> World:
    """The flow at its end; steps without a script complete. Each runs the template t."""
    made = JobFlowSpec(flows=list(steps), **spec)
    metadata = ObjectMeta(
        name="f", namespace="ns", uid=FLOW_UID, generation=1, creation_timestamp=NOW
    )
    names = [step.name for step in (*steps, *(made.finally_ or ()))]
    told = {name: scripts.get(name, (Script(),)) for name in names}
    case = Case(JobFlow(metadata=metadata, spec=made), TEMPLATES, told, commands, crashes)
    return Carried(case).to_the_end()


def reasons(world: World) -> dict[str, str]:
    conditions = world.flow.status.conditions or {}
    return {key.removeprefix("f-"): condition.reason for key, condition in conditions.items()}


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
