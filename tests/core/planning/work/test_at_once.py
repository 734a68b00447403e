"""Steps without a job, `compute` and `fail`, are decided in the plan in which they are ready."""

from typing import Any

import pytest

from jobflow.api.flow.control import Case, ForEach, Param
from jobflow.api.flow.step import DependsOn, Step
from jobflow.core.cel.budget import MAX_PLAN_STEPS, PlanBudget
from support.plan.plan_world import flow
from support.plan.reusing_worlds import reasons, results, reusing
from support.plan.steps import step


def values(targets: str = "", /, **texts: str) -> Step:
    return step(targets, compute=texts)


def matching(target: str, **fields: Any) -> Step:
    return Step(depends_on=DependsOn(targets=[target], items="Matching"), **fields)


def test_values_are_computed_where_their_targets_have_ended() -> None:
    world = flow("a", n=values("a", two="steps['a'].attempts + 1")).settled()
    assert world.plan().phases["n"] == "Waiting"
    world = world.with_jobs(a="Completed")
    assert world.plan().conditions["n"].outputs == {"two": 2}
    assert world.settled().end[0] == "Succeed"


def test_one_plan_decides_all_levels() -> None:
    world = flow(
        a=values(x="1"),
        b=values("a", x="steps['a'].outputs.x + 1"),
        c=step("b", when="steps['b'].outputs.x > 1", compute={"x": "steps['b'].outputs.x + 1"}),
        d=step("c", fail="$(steps.c.outputs.x) is too many"),
    )
    planned = world.plan()
    assert planned.phases == {"a": "Completed", "b": "Completed", "c": "Completed", "d": "Failed"}
    assert (planned.conditions["d"].reason, planned.conditions["d"].message) == (
        "FailStep",
        "3 is too many",
    )
    assert planned.status.state.phase == "Failed"


def test_a_job_is_created_once_what_it_depends_on_is_stored() -> None:
    world = flow("other", a=values(x="1"), b=values("a", x="2"), c="b")
    planned = world.plan()
    assert (planned.creates, planned.plan.urgent) == (["f-other"], True)
    waiting = planned.conditions["c"]
    assert (waiting.reason, waiting.message) == (
        "Starting",
        "the values of steps before it are being stored",
    )
    assert world.with_status(planned.status).plan().creates == ["f-other", "f-c"]


def test_a_job_behind_a_step_that_a_value_skips_waits_for_it_too() -> None:
    world = flow(
        a=values(x="1"),
        b=step("a", when="steps['a'].outputs.x > 1"),
        c=step("b", condition="Finished", compute={"x": "3"}),
        d=step("c"),
    )
    planned = world.plan()
    assert (planned.phases["b"], planned.creates) == ("Skipped", [])


def test_jobs_of_items_wait_until_the_values_of_their_items_are_stored() -> None:
    three = ForEach(count=3)
    world = flow(
        a=step(for_each=three, compute={"x": "10 / (item - 1)"}, continue_on_failure=True),
        b=matching("a", compute={"x": "index"}),
        c=matching("b"),
    )
    planned = world.plan()
    assert planned.creates == []
    assert [run.phase for run in planned.conditions["a"].runs or ()] == [
        "Completed",
        "Failed",
        "Completed",
    ]
    world = world.apply(planned).settled()
    assert list(world.jobs) == ["f-c-0", "f-c-2"]


def test_every_item_has_its_values() -> None:
    world = flow(a=step(for_each=ForEach(items=[3, 4]), compute={"x": "item * 2 + index"}))
    runs = world.plan().conditions["a"].runs or ()
    assert [run.outputs for run in runs] == [{"x": 6}, {"x": 9}]
    assert world.plan().phases == {"a": "Completed"}


def test_an_error_for_one_of_1000_items_fails_the_step_and_names_the_item() -> None:
    items = ForEach(count=1000)
    condition = flow(a=step(for_each=items, compute={"x": "1 / (item - 700)"})).settled().plan()
    found = condition.conditions["a"]
    assert (found.phase, found.reason) == ("Failed", "ExpressionError")
    assert found.message.startswith(
        "299 of 1,000 items not started; item 700: compute.x `1 / (item - 700)`: "
    )


def test_a_plan_without_budget_leaves_values_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    spent = property(lambda budget: budget._left < MAX_PLAN_STEPS)
    monkeypatch.setattr(PlanBudget, "spent", spent)
    world = flow(a=values(x="1"), b=values("a", x="2"), c="b")
    phases = []
    while world.plan().creates == []:
        planned = world.plan()
        phases.append(planned.phases)
        world = world.with_status(planned.status)
    assert phases[0]["a"] == "Completed"
    assert phases[0]["b"] == "Waiting"
    assert phases[1]["b"] == "Completed"


def test_a_failure_without_a_job_starts_handlers_and_stops_the_rest() -> None:
    world = flow(
        gate=step(fail="no data"),
        handler=step("gate", condition="Failed"),
        rest="gate",
    )
    planned = world.plan()
    assert planned.creates == []
    planned = world.with_status(planned.status).plan()
    assert (planned.creates, planned.phases["rest"]) == (["f-handler"], "Skipped")


def test_a_failure_without_a_job_is_tolerated_as_that_of_a_job_is() -> None:
    world = flow(gate=step(fail="no data", continue_on_failure=True), b="gate").settled()
    assert list(world.jobs) == ["f-b"]


def test_a_message_without_a_value_is_an_error() -> None:
    gate = step("a", fail="$(steps.a.outputs.why)", continue_on_failure=True)
    world = flow("a", gate=gate).run()
    found = world.plan().conditions["gate"]
    assert (found.phase, found.reason) == ("Failed", "ExpressionError")
    assert found.message.startswith("fail: $(steps.a.outputs.why) has no value")
    assert world.end[0] == "Failed"


def test_values_of_more_than_4_kb_fail_the_step() -> None:
    text = "steps['a'].outputs.x"
    world = flow(a=values(x=f"'{'x' * 900}'"), b=values("a", x=" + ".join([text] * 5)))
    found = world.plan().conditions["b"]
    assert (found.phase, found.reason) == ("Failed", "OutputsTooLarge")
    assert found.message == (
        "the outputs of b have 4508 bytes as JSON, and a step has room for 4096"
    )


def test_a_case_may_compute_fail_or_run_a_job() -> None:
    cases = [
        Case(when="steps['a'].outputs.n > 2", fail="$(steps.a.outputs.n) rows"),
        Case(when="steps['a'].outputs.n > 1", compute={"x": "steps['a'].outputs.n"}),
        Case(template="b"),
    ]
    failed, computed, ran = (
        flow(a=values(n=n), b=step("a", switch=cases), c="b").settled() for n in "321"
    )
    condition = failed.plan().conditions["b"]
    assert (condition.reason, condition.message) == ("FailStep", "3 rows")
    assert computed.plan().conditions["b"].outputs == {"x": 2}
    assert [list(world.jobs) for world in (failed, computed, ran)] == [[], ["f-c"], ["f-b"]]


def test_a_retry_of_the_flow_decides_again_what_had_failed() -> None:
    world = flow(a=values(x="1"), gate=step("a", fail="no"), c="gate").settled()
    assert world.end[0] == "Failed"
    world = world.with_command("RestartJob")
    planned = world.plan()
    world = world.with_status(planned.status).settled()
    found = world.plan().conditions
    assert (found["a"].attempts, found["gate"].attempts, found["gate"].reason) == (1, 2, "FailStep")


def test_items_read_the_values_of_the_same_items_in_one_plan() -> None:
    reading = matching("a", compute={"y": "steps['a'].item.outputs.x + 1"})
    world = flow(a=step(for_each=ForEach(items=[5, 6]), compute={"x": "item"}), b=reading)
    runs = world.plan().conditions["b"].runs or ()
    assert [run.outputs for run in runs] == [{"y": 6}, {"y": 7}]


def test_a_skipped_gate_lets_the_flow_go_on() -> None:
    world = flow(gate=step(fail="no"), c="gate").settled()
    world = world.with_command("SkipStep", text="gate").settled()
    assert (world.plan().phases["gate"], list(world.jobs)) == ("Skipped", ["f-c"])


@pytest.mark.parametrize(("p", "reused"), [(3, {None: "f-c"}), (7, {})])
@pytest.mark.parametrize("cases", [1, 2])
@pytest.mark.parametrize("when", [None, "steps['b'].outputs.x in [true, false]"])
def test_what_depends_on_values_is_reused_if_they_are_equal(
    p: int, reused: dict[None, str], cases: int, when: str | None
) -> None:
    is_large = {"x": "params.p > 5"}
    fields: dict[str, Any] = {"compute": is_large}
    if cases > 1:
        fields = {"switch": [Case(when="params.p > 0", compute=is_large), Case(template="a")]}
    before = flow("a", b=step("a", **fields), c=step("b", when=when))
    before = before.with_spec(params=[Param(name="p", value=1)])
    after = reusing(before.run(), params=[Param(name="p", value=p)])
    assert results(after.settled(), "c") == reused
    assert reasons(after)["b"] == "a step without a job is decided in every flow"


def test_a_condition_sees_how_its_targets_end_beside_a_failure() -> None:
    """Step a has its values before gate fails in the same plan, which stops the flow before a."""
    when = "steps['a'].phase == 'Completed'"
    world = flow(a=values(x="1"), b=step("a", condition="Always", when=when), gate=step(fail="no"))
    planned = world.plan()
    assert planned.phases == {"a": "Skipped", "b": "Skipped", "gate": "Failed"}
    assert planned.conditions["b"].reason == "NotTaken"


def test_matched_items_that_run_again_have_their_new_values() -> None:
    world = flow(a=step(for_each=ForEach(items=[5, 6])), b=matching("a", compute={"x": "item"}))
    world = world.run().with_command("RetrySteps", text="b").settled()
    runs = world.plan().conditions["b"].runs or ()
    assert [(run.outputs, run.attempts) for run in runs] == [({"x": 5}, 2), ({"x": 6}, 2)]


def test_a_step_that_only_fails_has_never_run() -> None:
    behind = step("gate other", condition="Running", strategy="any", compute={"x": "1"})
    world = flow("other", gate=step(fail="no"), c=behind).with_spec(failure_policy="Continue")
    world = world.settled()
    assert world.plan().phases["c"] == "Waiting"
    assert world.with_jobs(other="Running").plan().phases["c"] == "Completed"


def test_a_step_one_of_whose_items_has_values_has_run() -> None:
    items = ForEach(items=[0, 1])
    a = step(for_each=items, compute={"x": "1 / item"}, continue_on_failure=True)
    world = flow(a=a, b=step("a", condition="Running", compute={"x": "1"}))
    planned = world.with_spec(failure_policy="Continue").plan()
    assert planned.phases == {"a": "Failed", "b": "Completed"}
