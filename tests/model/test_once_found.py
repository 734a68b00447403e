"""Small flows from random ones that once ended in an unexpected way."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from jobflow.api.control import Case as Switched
from jobflow.api.control import ForEach, Patch, Repeat, Retry
from jobflow.api.jobflow import JobFlow, JobFlowSpec, Step
from jobflow.api.meta import ObjectMeta
from model.acting import NEVER, Script
from model.carrying import Case, Simulation
from model.random_flows import TEMPLATES
from support.plan.plan_world import FLOW_UID, NOW, World
from support.plan.steps import after


def end_of(
    *steps: Step,
    commands: tuple[tuple[int, str], ...] = (),
    scripts: dict[str, tuple[Script, ...]],
    crashes: int | None = None,
    **spec: Any,
) -> World:
    """Return the flow at its end. Steps without a script complete; each uses the template t."""
    body = JobFlowSpec(flows=list(steps), **spec)
    metadata = ObjectMeta(
        name="f", namespace="ns", uid=FLOW_UID, generation=1, creation_timestamp=NOW
    )
    names = [step.name for step in (*steps, *(body.finally_ or ()))]
    by_step = {name: scripts.get(name, (Script(),)) for name in names}
    case = Case(JobFlow(metadata=metadata, spec=body), TEMPLATES, by_step, commands, crashes)
    return Simulation(case).run_to_end()


def step(name: str, **fields: Any) -> Step:
    return Step(name=name, template="t", **fields)


def use_output(step: str) -> Patch:
    return Patch(job_spec={"queue": f"q-$(steps.{step}.outputs.n)"})


def reasons(world: World) -> dict[str, str]:
    conditions = world.flow.status.conditions or {}
    return {key.removeprefix("f-"): condition.reason for key, condition in conditions.items()}


FAILS = (Script(lasts=1, end="Failed"),)
ASKS = Retry(limit=2, when="outputs.n > 1")
NO_SUCH_ITEM = 'steps["a"].items[0].phase == "Completed"'


def row(title: str, reasons: dict[str, str], *steps: Step, jobs: str = "", **fields: Any) -> Any:
    """A small flow and how it ends: the reason of each step, and its vcjobs (`f-…`) unless ""."""
    flow = partial(end_of, *steps, **{"scripts": {}, **fields})
    return pytest.param(flow, reasons, jobs, id=title)


ROWS = [
    row(
        "the step whose failure aborts the flow keeps its own reason",
        {"b": "ExpressionError"},
        step("b", retry=ASKS),
        scripts={"b": FAILS},
        failure_policy="Abort",
    ),
    row(
        "a refused create aborts the flow and keeps its reason",
        {"a": "FailurePolicy", "b": "Refused"},
        step("a", retry=Retry(limit=1)),
        step("b"),
        scripts={"a": (Script(lasts=9),), "b": (Script(refused=True),)},
        failure_policy="Abort",
    ),
    row(
        "retry.when of an attempt that was aborted for good is not evaluated",
        {"b": "FailurePolicy", "c": "JobFailed"},
        step("b", retry=ASKS),
        step("c"),
        scripts={"b": (Script(lasts=9),), "c": FAILS},
        failure_policy="Abort",
    ),
    # A step that completed never runs again, so its outputs would be lost.
    row(
        "outputs of a job that completes although it is being aborted are kept",
        {"c": "", "y": ""},
        step("c"),
        finally_=[step("y", patch=use_output("c"))],
        commands=((3, "AbortJob"), (6, "ResumeJob")),
        scripts={"c": (Script(lasts=3, output={"n": 0}),)},
    ),
    row(
        "a retried loop runs only what has not completed",
        {"a": "", "r": ""},
        step("a", for_each=ForEach(items=["x", "y"])),
        step("r", repeat=Repeat(until="outputs.n > 1", max=3)),
        commands=((20, "RestartJob"),),
        scripts={
            "a": (Script(), Script(lasts=1, end="Failed"), Script()),
            "r": (Script(output={"n": 0}), Script(end="Failed"), Script(output={"n": 2})),
        },
        failure_policy="Continue",
        jobs="a-0 a-1 a-1-r1 r-0 r-1 r-1-r1",
    ),
    row(
        "a step of finally is retried after its timeout in a flow that timed out",
        {"a": "Timeout", "z": ""},
        step("a"),
        finally_=[step("z", retry=Retry(limit=1), timeout="2s")],
        scripts={"a": (Script(lasts=9),), "z": (Script(lasts=9), Script(lasts=1))},
        timeout="3s",
        jobs="a z z-r1",
    ),
    # One of them fails before the other decides.
    row(
        "flow.phase in finally is the end of the flow without finally",
        {"a": "", "z": "ExpressionError", "y": "", "x": "NotTaken"},
        step("a"),
        finally_=[
            step("z", patch=use_output("a")),
            step("y", when='flow.phase == "Succeed"'),
            step("x", when='flow.phase == "Failed"'),
        ],
    ),
    row(
        "a repeat that reached its maximum starts from its first run in a retry",
        {"a": ""},
        step("a", repeat=Repeat(until="outputs.n > 1", max=2)),
        commands=((20, "RestartJob"),),
        scripts={"a": tuple(Script(output={"n": n}) for n in range(3))},
        jobs="a-0 a-1 a-0-r1 a-1-r1",
    ),
    row(
        "a step that ends between two attempts has no outputs",
        {"b": "Timeout", "z": "ExpressionError"},
        step("b", retry=Retry(limit=2)),
        finally_=[step("z", patch=use_output("b"))],
        scripts={"b": (Script(end="Failed", output={"n": 1}),)},
        timeout="8s",
    ),
    row(
        "no item starts after one that completes when the flow times out",
        {"c": "", "a": "Timeout", "b": "Stopped"},
        step("c"),
        step("a", for_each=ForEach(count=3)),
        step("b"),
        scripts={"c": (Script(lasts=1),), "a": (Script(lasts=7, obeys=3),)},
        timeout="8s",
        parallelism=2,
        jobs="c a-0 a-1",
    ),
    row(
        "a create is refused before the status says that another step has no items",
        {"c": "Refused", "b": "Stopped"},
        step("c"),
        step("b", when="true", for_each=ForEach(count=0)),
        scripts={"c": (Script(refused=True),)},
    ),
    row(
        "a timeout decides about dependants of known targets in any order of the steps",
        {"a": "", "b": "", "c": "NotTaken", "e": "NotTaken", "d": "Timeout"},
        step("e", depends_on=after("c", condition="Failed")),
        step("c", depends_on=after("a b", condition="Failed")),
        step("b", depends_on=after("a", condition="Running")),
        step("a"),
        step("d"),
        scripts={"a": (Script(lasts=1),), "b": (Script(lasts=1),), "d": (Script(lasts=9),)},
        timeout="3s",
    ),
    row(
        "a step that starts before a failure is known stays started",
        {"a": "", "b": "", "f": "ExpressionError"},
        step("a", for_each=ForEach(from_="[]")),
        step("b"),
        step("f", depends_on=after("a"), when=NO_SUCH_ITEM),
    ),
    row(
        "retry.when is not evaluated if the attempt fails when the flow times out",
        {"a": "JobFailed", "b": "UpstreamFailed", "c": "Timeout", "d": "Timeout"},
        step("a", retry=ASKS),
        step("b", depends_on=after("a")),
        step("c", timeout="1s", retry=ASKS),
        step("d"),
        scripts={
            "a": (Script(lasts=2, end="Failed"),),
            "c": (Script(lasts=9),),
            "d": (Script(lasts=9),),
        },
        timeout="3s",
    ),
    row(
        "a step starts although a reference of another has no value a plan later",
        {"a": "", "b": "", "f": "ExpressionError"},
        step("a"),
        step("b", depends_on=after("a")),
        step("f", depends_on=after("a"), when="true", patch=use_output("a")),
    ),
    row(
        "the order of starts stays after a restart of the controller",
        dict.fromkeys("abcde", ""),
        *[step(name, depends_on=after("a")) for name in "ed"],
        *[step(name) for name in "cba"],
        scripts={
            "c": (Script(lasts=90, obeys=NEVER),),
            **dict.fromkeys("edba", (Script(lasts=1),)),
        },
        commands=((0, "SuspendFlow"), (1, "AbortJob"), (2, "SuspendFlow")),
        crashes=1,
        parallelism=1,
    ),
    row(
        "a step that is refused has had its turn",
        {"b": "Refused", "a": "", "c": "", "d": "", "e": "Stopped"},
        Step(name="b", switch=[Switched(when="true", template="t")]),
        *[step(name) for name in "acde"],
        scripts={"b": (Script(refused=True),)},
        parallelism=2,
    ),
    row(
        "an item starts before another that is retried is looked up",
        {"a": ""},
        step("a", for_each=ForEach(items=[3, 2, 1], parallelism=2)),
        commands=((2, "RestartJob"),),
        scripts={"a": (Script(lasts=1), Script(lasts=1, end="Failed"))},
        jobs="a-0 a-1 a-1-r1 a-2",
    ),
    # Even if the failed step failed by a decision of an earlier plan.
    row(
        "no step starts in the plan that decides a failure",
        {"a": "", "f": "ExpressionError", "c": "Stopped", "b": "Stopped"},
        step("a", for_each=ForEach(from_="[]")),
        step("c", for_each=ForEach(from_="[]")),
        step("b", depends_on=after("c")),
        step("f", depends_on=after("a"), when=NO_SUCH_ITEM),
    ),
    # The decision of its step is written first, and another step takes the room meanwhile.
    row(
        "a reference without a value fails its step once there is room",
        {"a": "", "z": "ExpressionError", "y": ""},
        step("a"),
        finally_=[
            Step(name="z", patch=use_output("a"), switch=[Switched(when="true", template="t")]),
            step("y"),
        ],
        parallelism=1,
    ),
    row(
        "a step whose next attempt is refused has no outputs",
        {"a": "Refused", "z": "ExpressionError"},
        step("a", retry=Retry(limit=1)),
        finally_=[step("z", patch=use_output("a"))],
        scripts={"a": (Script(end="Failed", output={"n": 1}), Script(refused=True))},
    ),
    row(
        "a daemon that is ended between two attempts has no outputs",
        {"c": "Timeout", "a": "", "b": "DaemonEnded", "y": "ExpressionError"},
        step("c", timeout="4s"),
        step("a"),
        step("b", depends_on=after("a"), retry=Retry(limit=1), daemon=True),
        finally_=[step("y", patch=use_output("b"))],
        scripts={
            "c": (Script(lasts=None),),
            "a": (Script(lasts=1),),
            "b": (Script(end="Failed", output={"n": 1}),),
        },
    ),
    row(
        "an item starts while the pods of a job are read whose failure aborts the flow",
        {"a": "FailurePolicy", "d": "ExpressionError"},
        step("a", for_each=ForEach(items=["x", "y"], parallelism=1)),
        step("d", repeat=Repeat(until="outputs.n > 1", max=1)),
        scripts={"a": (Script(lasts=1),), "d": (Script(lasts=1, watched=False),)},
        failure_policy="Abort",
    ),
    # All other steps end in that second.
    row(
        "a daemon between two attempts ends for the timeout of the flow",
        {"a": "Timeout", "c": "", "z": ""},
        step("a", retry=Retry(limit=2), daemon=True),
        step("c"),
        finally_=[step("z")],
        scripts={"a": (Script(end="Failed"),), "c": (Script(lasts=7),)},
        timeout="8s",
    ),
]


@pytest.mark.parametrize(("flow", "ends", "jobs"), ROWS)
def test_a_small_flow_ends_with_these_reasons(
    flow: Callable[[], World], ends: dict[str, str], jobs: str
) -> None:
    world = flow()
    assert reasons(world) == ends
    assert not jobs or set(world.jobs) == {f"f-{name}" for name in jobs.split()}


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
    assert world.flow.status.state.phase == ("Succeed" if allowed == "step" else "Failed")


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
        step("a", for_each=ForEach(from_='["x", "y"]'), timeout="2s"),
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
