"""`when` and `switch`: one decision, stored before the create."""

import msgspec
import pytest

from jobflow.api.flow.control import Case, ForEach, Param, Patch
from jobflow.api.flow.status import Decisions
from jobflow.core.planning.actions import CreateJob
from support.plan.plan_world import World, flow
from support.plan.steps import step

A_COMPLETED = 'steps["a"].phase == "Completed"'
A_FAILED = 'steps["a"].phase == "Failed"'


def conditional(when: str, **fields: object) -> World:
    """b runs after a if `when` holds; a has completed."""
    world = flow("a", b=step("a", condition="Finished", when=when, **fields), c="b")
    return world.with_jobs(a="Completed")


def switching(*cases: Case, **fields: object) -> World:
    world = flow("a", b=step("a", switch=list(cases), **fields), c="b").with_spec()
    return world.with_jobs(a="Completed")


def decided(world: World, name: str = "b") -> Decisions | None:
    return world.plan().conditions[name].decisions


def created_job(world: World) -> CreateJob:
    [create] = [a for a in world.plan().plan.actions if isinstance(a, CreateJob)]
    return create


def test_a_decision_is_stored_before_the_job_is_created() -> None:
    world = conditional(A_COMPLETED)
    planned = world.plan()
    assert (planned.creates, planned.plan.urgent) == ([], True)
    assert planned.held_up["b"] == "Starting"
    assert decided(world) == Decisions(when=True)
    assert world.stored().plan().creates == ["f-b"]
    assert decided(world.settled()) == Decisions(when=True)
    assert decided(world.settled().with_jobs(b="Completed")) == Decisions(when=True)


def test_a_step_whose_when_does_not_hold_is_not_taken() -> None:
    world = conditional(A_FAILED).settled()
    planned = world.plan()
    assert planned.skipped == {"b": "NotTaken", "c": "NotTaken"}
    assert planned.conditions["b"].message == f"`{A_FAILED}` does not hold"
    assert decided(world) == Decisions(when=False)
    assert (planned.phase, planned.creates) == ("Succeed", [])


def test_a_stored_decision_is_not_evaluated_again() -> None:
    """A stored decision is kept even if the expression has another value now."""
    world = conditional(A_COMPLETED).stored()
    steps = [
        msgspec.structs.replace(entry, when="false") if entry.name == "b" else entry
        for entry in world.flow.steps
    ]
    assert world.with_spec(flows=steps).plan().creates == ["f-b"]


def test_a_decision_is_made_after_the_targets_have_ended() -> None:
    world = conditional(A_COMPLETED).with_jobs(a="Running")
    assert world.plan().waiting == {
        "b": "waits for a (Running) to finish",
        "c": "waits for b (Waiting)",
    }
    assert decided(world) is None


@pytest.mark.parametrize("when", ['steps["a"].outputs.n > 1', "params.x", "1 / 0 == 1"])
def test_an_expression_without_a_value_fails_the_step(when: str) -> None:
    world = conditional(when).with_spec(params=[Param(name="x", value=3)])
    planned = world.settled().plan()
    assert planned.failed == {"b": "ExpressionError"}
    assert planned.conditions["b"].message.startswith(f"when `{when}`: ")
    assert planned.skipped == {"c": "UpstreamFailed"}
    assert planned.phase == "Failed"


def test_an_expression_error_stops_the_others_regardless_of_their_order() -> None:
    for names in (("a", "b", "d"), ("d", "b", "a")):
        steps = {"a": step("p"), "b": step("p", when="1 / 0 == 1"), "d": step("p")}
        world = flow("p", **{name: steps[name] for name in names}).with_jobs(p="Completed")
        assert (world.plan().failed, world.plan().creates) == ({"b": "ExpressionError"}, [])
        assert world.plan().skipped == {"a": "Stopped", "d": "Stopped"}


def test_steps_of_a_stopped_flow_are_still_decided() -> None:
    world = flow("x", a=step(when="false"), b=step(when="true"), c=step(when="1 / 0 == 1"))
    planned = world.with_jobs(x="Failed").plan()
    assert planned.skipped == {"a": "NotTaken", "b": "Stopped"}
    assert planned.failed == {"x": "JobFailed", "c": "ExpressionError"}


def test_a_suspended_flow_decides_nothing() -> None:
    world = conditional(A_COMPLETED).with_command("SuspendFlow").stored()
    assert (decided(world), world.plan().held_up["b"]) == (None, "Suspended")


def test_a_failure_between_the_decision_and_the_create_stops_the_step() -> None:
    world = flow("a", "x", b=step("a", when="true")).with_jobs(a="Completed", x="Running")
    world = world.stored().ended("f-x", "Failed")
    assert (world.plan().creates, world.plan().skipped) == ([], {"b": "Stopped"})


def test_items_without_a_value_fail_the_step() -> None:
    loop = ForEach(from_='steps["a"].outputs.files')
    planned = flow("a", b=step("a", for_each=loop), c="b").with_jobs(a="Completed").settled().plan()
    assert planned.failed == {"b": "ExpressionError"}
    message = planned.conditions["b"].message
    assert message.startswith('forEach.from `steps["a"].outputs.files`: there is no ')
    assert planned.skipped == {"c": "UpstreamFailed"}


def test_the_first_case_that_holds_is_taken() -> None:
    world = switching(
        Case(when=A_FAILED, template="x"),
        Case(when=A_COMPLETED, template="y", patch=Patch(job_spec={"queue": "q"})),
        Case(template="z"),
    )
    assert decided(world) == Decisions(case=1)
    create = created_job(world.stored())
    assert create.name == "f-b"
    labels = create.manifest["metadata"]["annotations"]
    assert labels["volcano.sh/createdByJobTemplate"] == "ns.y"
    assert create.manifest["spec"]["queue"] == "q"


def test_a_step_without_a_case_that_holds_is_not_taken() -> None:
    planned = switching(Case(when=A_FAILED, template="x")).plan()
    assert planned.skipped == {"b": "NotTaken", "c": "NotTaken"}
    assert planned.conditions["b"].message == "no case of its switch holds"


def test_an_error_message_names_the_case() -> None:
    world = switching(Case(when="false", template="x"), Case(when="1 / 0 == 1", template="y"))
    assert world.plan().failed == {"b": "ExpressionError"}
    assert world.plan().conditions["b"].message.startswith("switch[1].when `1 / 0 == 1`: ")


def test_a_step_waits_for_the_template_of_its_case() -> None:
    world = switching(Case(when="true", template="y")).stored().without_template("y")
    assert world.plan().held_up["b"] == "WaitingForTemplate"
    assert world.plan().conditions["b"].message == "waits for the JobTemplate y"
    assert decided(world.stored()) == Decisions(case=0)
    assert world.stored().with_template("y").plan().creates == ["f-b"]


def test_a_lost_job_is_recreated_from_the_same_case() -> None:
    world = switching(Case(when="false", template="x"), Case(template="y"))
    world = world.settled().with_jobs(b="Running").settled()
    world = world.without_jobs("b").with_missing("f-b").settled().later(1)
    assert world.plan().creates == ["f-b-r1"]
    annotations = created_job(world).manifest["metadata"]["annotations"]
    assert annotations["volcano.sh/createdByJobTemplate"] == "ns.y"


def test_when_is_decided_before_switch() -> None:
    world = switching(Case(template="y"), when="false")
    assert decided(world) == Decisions(when=False)
    assert decided(switching(Case(template="y"), when="true")) == Decisions(when=True, case=0)
