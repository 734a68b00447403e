"""`forEach.maxFailed`, `minSuccess` and `until`: how many items may fail, and which are needed."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from jobflow.api.flow.control import ForEach, Retry
from jobflow.api.flow.step import DependsOn, Step
from jobflow.core.explain.explain import explain_step
from support.plan.loop_worlds import end_jobs, finish, jobs_in, run, runs, two_steps
from support.plan.plan_world import World, flow
from support.plan.steps import after, step


def matching(targets: str, *, condition: str | None = None) -> Step:
    return Step(depends_on=DependsOn(targets=[targets], condition=condition, items="Matching"))


def started(count: int | str = 4, *, policy: str | None = None, **each: object) -> World:
    world = two_steps(for_each=ForEach(count=count, **each))  # type: ignore[arg-type]
    return (world.with_spec(failure_policy=policy) if policy else world).settled()


def aborted(world: World) -> set[str]:
    return set(world.plan().aborts)


def outcome(world: World, name: str = "a") -> tuple[str, str, str]:
    condition = world.plan().conditions[name]
    return condition.phase, condition.reason, condition.message


@pytest.mark.parametrize("most", [1, "25%", "49%"])
def test_up_to_max_failed_the_step_goes_on_and_completes(most: int | str) -> None:
    world = end_jobs(started(max_failed=most, parallelism=1), "Failed", "f-a-0")
    assert jobs_in(world) == {"f-a-0": "Failed", "f-a-1": "Pending"}
    for index in (1, 2, 3):
        world = end_jobs(world, "Completed", f"f-a-{index}")
    assert outcome(world) == ("Completed", "", "1 of 4 items failed")
    assert (jobs_in(world)["f-b"], world.plan().phase) == ("Pending", "Running")


@pytest.mark.parametrize("policy", ["Stop", "Continue"])
def test_after_one_more_no_item_starts_and_running_ones_finish(policy: str) -> None:
    world = started(5, max_failed=1, parallelism=2, policy=policy)
    world = end_jobs(end_jobs(world, "Failed", "f-a-0"), "Failed", "f-a-1")
    assert list(jobs_in(world)) == ["f-a-0", "f-a-1", "f-a-2"]
    found = outcome(world)
    assert found == ("Running", "TooManyFailed", "2 of 5 items failed; maxFailed is 1")
    assert not aborted(world)
    world = end_jobs(world, "Completed", "f-a-2")
    phase, reason, message = outcome(world)
    assert (phase, reason, world.plan().phases["b"]) == ("Failed", "TooManyFailed", "Skipped")
    head = "2 of 5 items failed; maxFailed is 1; 2 of 5 items not started; item 0: "
    assert message == f"{head}the job f-a-0 ended Failed"
    assert world.plan().phase == "Failed"


def test_abort_ends_the_running_items_once_it_is_stored() -> None:
    world = started(3, max_failed=0, policy="Abort").later(1).ended("f-a-0", "Failed")
    first = world.plan()
    assert (first.conditions["a"].reason, aborted(world)) == ("TooManyFailed", set())
    world = world.settled()
    assert {run(world.plan(), i).reason for i in (1, 2)} == {"FailurePolicy"}
    world = end_jobs(world, "Aborted", "f-a-1", "f-a-2")
    assert outcome(world)[:2] == ("Failed", "TooManyFailed")
    assert runs(world.plan()) == {
        0: "Failed JobFailed",
        1: "Failed FailurePolicy",
        2: "Failed FailurePolicy",
    }


def test_a_failure_counts_when_its_retries_are_used_up() -> None:
    each = ForEach(count=2, max_failed=0)
    world = two_steps(for_each=each, retry=Retry(limit=1)).settled()
    world = end_jobs(world, "Failed", "f-a-0")
    assert outcome(world)[:2] == ("Running", "")
    world = end_jobs(world.later(1).settled(), "Failed", "f-a-0-r1")
    assert outcome(world)[:2] == ("Running", "TooManyFailed")


def test_min_success_ends_the_other_items() -> None:
    world = started(5, min_success="40%", parallelism=3).later(1)
    world = world.ended("f-a-0", "Completed").ended("f-a-2", "Completed")
    first = world.plan()
    assert (first.conditions["a"].reason, aborted(world)) == ("NotNeeded", set())
    assert first.conditions["a"].message == "2 of 5 items have completed; minSuccess is 40%"
    assert "f-a-3" not in first.creates
    world = world.settled()
    assert run(world.plan(), 1).reason == "NotNeeded"
    world = end_jobs(world, "Aborted", "f-a-1")
    assert outcome(world) == ("Completed", "", "3 of 5 items not needed")
    assert runs(world.plan()) == {
        0: "Completed",
        1: "Skipped NotNeeded",
        2: "Completed",
        3: "Skipped NotNeeded",
        4: "Skipped NotNeeded",
    }


def test_the_job_of_an_item_that_is_gone_while_it_is_aborted_has_an_end() -> None:
    world = end_jobs(started(3, min_success=1), "Completed", "f-a-0")
    world = replace(world, deleted=frozenset({"f-a-1"})).later(1).settled()
    record = world.records["f-a-1"]
    assert (record.state, record.end_timestamp) == ("Aborted", world.now)
    assert world.flow.status.terminated_jobs == ["f-a-1"]


@pytest.mark.parametrize(
    ("phase", "found"), [("Completed", "Completed"), ("Failed", "Failed JobFailed")]
)
def test_an_item_that_ends_while_it_is_aborted_counts_as_it_ended(phase: str, found: str) -> None:
    world = end_jobs(started(3, min_success=1), "Completed", "f-a-0")
    world = end_jobs(end_jobs(world, found.split()[0], "f-a-1"), "Aborted", "f-a-2")
    assert runs(world.plan())[1] == found
    assert outcome(world)[:2] == ("Completed", "")


def test_failures_hold_nothing_up_until_min_success_can_not_be_reached() -> None:
    world = started(4, min_success=2, parallelism=1)
    for index in (0, 1):
        world = end_jobs(world, "Failed", f"f-a-{index}")
        assert jobs_in(world)[f"f-a-{index + 1}"] == "Pending"
    world = end_jobs(world, "Failed", "f-a-2")
    phase, reason, message = outcome(world)
    assert (phase, reason) == ("Failed", "TooManyFailed")
    assert message.startswith("3 of 4 items failed; minSuccess is 2; 1 of 4 items not started")


def test_min_success_above_the_number_of_items_fails_before_any_starts() -> None:
    world = two_steps(for_each=ForEach(from_="[1, 2]", min_success=3)).settled()
    assert not jobs_in(world)
    found = outcome(world)
    assert found == ("Failed", "TooManyFailed", "0 of 2 items failed; minSuccess is 3")


def test_percentages_are_of_a_list_that_is_known_only_when_the_step_starts() -> None:
    world = two_steps(for_each=ForEach(from_="[1, 2, 3, 4]", max_failed="25%")).settled()
    world = end_jobs(world, "Failed", "f-a-0")
    assert outcome(world)[1] == ""
    world = end_jobs(world, "Failed", "f-a-1")
    assert outcome(world)[1:] == ("TooManyFailed", "2 of 4 items failed; maxFailed is 25%")


@pytest.mark.parametrize("each", [{"max_failed": "5%"}, {"min_success": 3}, {"until": "false"}])
def test_a_step_without_items_is_completed(each: Mapping[str, object]) -> None:
    world = two_steps(for_each=ForEach(from_="[]", **each)).settled()  # type: ignore[arg-type]
    assert outcome(world)[0] == "Completed"


def searching(until: str, count: int = 4, **each: object) -> World:
    return started(count, until=until, parallelism=2, **each)


GOAL = 'items.exists(i, i.phase == "Completed" && i.outputs.acc > 0.9)'


def test_until_ends_the_others_as_soon_as_it_holds() -> None:
    world = finish(searching(GOAL), "f-a-0", '{"acc": 0.5}').settled()
    assert outcome(world)[1] == ""
    world = finish(world, "f-a-2", '{"acc": 0.95}').settled()
    assert run(world.plan(), 1).reason == "NotNeeded"
    world = end_jobs(world, "Aborted", "f-a-1")
    assert outcome(world) == ("Completed", "", "2 of 4 items not needed")


@pytest.mark.parametrize(
    "each", [{"until": "items.exists(i, i.phase == 'Completed')"}, {"min_success": 1}]
)
def test_no_further_item_starts_while_the_outputs_of_one_are_read(each: Mapping[str, str]) -> None:
    reader = step("a", when='steps["a"].items[0].outputs.acc > 0')
    searching = step(for_each=ForEach(count=3, **each))  # type: ignore[arg-type]
    world = flow(a=searching, b=reader).with_spec(parallelism=1).settled()
    world = world.later(1).ended("f-a-0", "Completed")
    planned = world.plan()
    assert (planned.reads, planned.creates) == (["f-a-0"], [])
    assert finish(world, "f-a-0", '{"acc": 0.95}').plan().creates == []


def test_until_sees_index_item_phase_and_outputs_of_what_has_ended() -> None:
    seen = 'items == [{"index": 1, "item": 1, "phase": "Failed", "outputs": {}}, '
    seen += '{"index": 3, "item": 3, "phase": "Completed", "outputs": {"x": 1}}]'
    world = end_jobs(started(until=seen), "Failed", "f-a-1")
    assert outcome(world)[1] == ""
    world = finish(world, "f-a-3", '{"x": 1}').settled()
    assert outcome(world)[1] == "NotNeeded"


def test_a_step_fails_if_until_never_held() -> None:
    world = end_jobs(started(2, until=GOAL), "Failed", "f-a-0")
    world = finish(world, "f-a-1", '{"acc": 0.1}').settled()
    found = outcome(world)
    assert found == ("Failed", "UntilNotReached", f"`{GOAL}` does not hold after 2 items")


def test_an_error_in_until_fails_the_step_once_the_running_items_have_ended() -> None:
    world = finish(searching("items[0].outputs.y > 1"), "f-a-0", "{}").settled()
    phase, reason, message = outcome(world)
    assert (phase, reason, list(jobs_in(world))) == (
        "Running",
        "ExpressionError",
        ["f-a-0", "f-a-1"],
    )
    world = end_jobs(world, "Completed", "f-a-1")
    assert outcome(world) == ("Failed", "ExpressionError", message)
    assert message.startswith("forEach.until `items[0].outputs.y > 1`: ")


def test_the_decision_is_not_taken_again_when_other_items_end() -> None:
    world = searching("items.size() == 1").later(1).ended("f-a-0", "Completed")
    world = world.settled()
    assert outcome(world)[1] == "NotNeeded"
    world = end_jobs(world, "Completed", "f-a-1")
    assert outcome(world)[:2] == ("Completed", "")


def test_what_the_flow_did_is_not_tolerated() -> None:
    each = ForEach(items=["1", "x", "2"], max_failed="100%", parallelism=1)
    world = two_steps(for_each=each, vars={"n": "int(item)"}).settled()
    world = end_jobs(world, "Failed", "f-a-0")
    phase, reason, message = outcome(world)
    assert (phase, reason, list(jobs_in(world))) == ("Failed", "ExpressionError", ["f-a-0"])
    assert message.startswith("1 of 3 items not started; item 1 (x): vars.n")


def test_a_tolerated_item_is_a_failed_one_to_its_matching_item() -> None:
    world = flow(
        a=step(for_each=ForEach(count=3, max_failed=1)),
        b=matching("a"),
        c=matching("b"),
        h=matching("a", condition="Failed"),
        last=Step(depends_on=after("c")),
    ).settled()
    world = end_jobs(world.settled(), "Failed", "f-a-1")
    assert runs(world.plan(), "b")[1] == "Skipped UpstreamFailed"
    assert "f-h-1" in jobs_in(world)
    world = end_jobs(world, "Completed", "f-a-0", "f-a-2", "f-h-1")
    world = end_jobs(world, "Completed", "f-b-0", "f-b-2")
    world = end_jobs(world, "Completed", "f-c-0", "f-c-2")
    planned = world.plan()
    assert runs(planned, "c")[1] == "Skipped UpstreamFailed"
    assert outcome(world, "b") == ("Completed", "", "1 of 3 items skipped")
    assert {planned.phases[name] for name in "abch"} == {"Completed"}
    world = end_jobs(world, "Completed", "f-last")
    assert world.plan().phase == "Succeed"


def test_an_item_that_was_not_needed_is_an_untaken_one_to_its_matching_item() -> None:
    world = flow(
        a=step(for_each=ForEach(count=2, min_success=1)),
        b=matching("a"),
        c=matching("a", condition="NotFailed"),
        d=matching("a", condition="Always"),
    ).settled()
    world = end_jobs(end_jobs(world.settled(), "Completed", "f-a-0"), "Aborted", "f-a-1")
    assert runs(world.plan())[1] == "Skipped NotNeeded"
    assert runs(world.plan(), "b")[1] == "Skipped NotTaken"
    started = {f"f-{name}" for name in ("b-0", "c-0", "c-1", "d-0", "d-1")}
    assert jobs_in(world).keys() - {"f-a-0", "f-a-1"} == started
    world = end_jobs(world, "Completed", *started)
    assert world.plan().phase == "Succeed"


def test_what_follows_too_many_failures_is_not_tolerated() -> None:
    world = flow(a=step(for_each=ForEach(count=3, max_failed=0)), b=matching("a")).settled()
    world = end_jobs(end_jobs(world.settled(), "Failed", "f-a-1"), "Completed", "f-a-0", "f-a-2")
    world = end_jobs(world, "Completed", "f-b-0", "f-b-2")
    assert outcome(world, "b")[:2] == ("Failed", "UpstreamFailed")


def test_a_cancelled_step_has_not_completed() -> None:
    world = end_jobs(started(3, max_failed="100%"), "Failed", "f-a-0")
    world = world.cancelled().settled()
    world = end_jobs(world, "Aborted", "f-a-1", "f-a-2")
    assert outcome(world)[:2] == ("Failed", "Cancelled")


def test_a_skip_of_a_failed_item_lets_its_step_be_judged_again() -> None:
    world = end_jobs(started(3, max_failed=0, parallelism=1), "Failed", "f-a-0")
    assert outcome(world)[:2] == ("Failed", "TooManyFailed")
    world = world.with_command("SkipStep", text="a/0").settled()
    assert jobs_in(world)["f-a-1"] == "Pending"
    world = end_jobs(end_jobs(world, "Completed", "f-a-1"), "Completed", "f-a-2")
    assert outcome(world)[:2] == ("Completed", "")


@pytest.mark.parametrize("has_ended", [True, False])
def test_a_skip_of_the_step_holds_although_until_never_did(has_ended: bool) -> None:
    world = end_jobs(started(2, until="items.size() > 5"), "Completed", "f-a-0")
    if has_ended:
        world = end_jobs(world, "Failed", "f-a-1")
        assert outcome(world)[:2] == ("Failed", "UntilNotReached")
    world = world.with_command("SkipStep", text="a").settled()
    world = world if has_ended else end_jobs(world, "Aborted", "f-a-1")
    assert runs(world.plan())[1] == "Skipped SkippedByUser"
    assert outcome(world)[:2] == ("Completed", "")
    assert "f-b" in jobs_in(world)


def test_a_retry_leaves_items_that_were_not_needed() -> None:
    world = end_jobs(started(2, min_success=1), "Completed", "f-a-0")
    world = end_jobs(end_jobs(world, "Aborted", "f-a-1"), "Failed", "f-b")
    world = world.with_command("RestartJob").settled()
    assert jobs_in(world).keys() == {"f-a-0", "f-a-1", "f-b", "f-b-r1"}
    assert runs(world.plan()) == {0: "Completed", 1: "Skipped NotNeeded"}


def test_a_retry_runs_tolerated_items_again_only_if_it_says_so() -> None:
    world = end_jobs(started(2, max_failed=1), "Failed", "f-a-0")
    world = end_jobs(end_jobs(world, "Completed", "f-a-1"), "Failed", "f-b")
    assert world.plan().phase == "Failed"
    assert "f-a-0-r1" not in jobs_in(world.with_command("RestartJob").settled())
    assert "f-a-0-r1" in jobs_in(world.with_command("RetryTolerated").settled())


@pytest.mark.parametrize("retry", [("RetrySteps", "a/0"), ("RetryTolerated", "")])
@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize(
    "goal", [{"min_success": 1}, {"until": "items.exists(i, i.phase == 'Completed')"}]
)
def test_a_retry_runs_an_item_again_although_enough_others_have_completed(
    goal: Mapping[str, object], count: int, retry: tuple[str, str]
) -> None:
    world = end_jobs(started(count, parallelism=1, **goal), "Failed", "f-a-0")
    world = end_jobs(end_jobs(world, "Completed", "f-a-1"), "Failed", "f-b")
    world = world.with_command(retry[0], text=retry[1]).settled()
    assert jobs_in(world).keys() == {"f-a-0", "f-a-1", "f-b", "f-a-0-r1"}
    world = end_jobs(world, "Failed", "f-a-0-r1")
    assert outcome(world)[:2] == ("Completed", "")
    assert "f-b-r1" in jobs_in(world)


@pytest.mark.parametrize(
    ("each", "sentence"),
    [
        ({"max_failed": "50%"}, "It completes if at most 50% of its items fail"),
        ({"min_success": 1}, "It completes as soon as 1 of its items have completed"),
        ({"until": "false"}, "It completes as soon as `false` holds"),
    ],
)
def test_why_names_the_tolerance(each: Mapping[str, object], sentence: str) -> None:
    world = started(2, **each)
    found = explain_step(world.flow, "a", now=world.now).sentences
    assert any(each.startswith(sentence) for each in found)


def test_percentages_are_of_the_items_that_are_taken() -> None:
    world = started(4, max_failed="50%", when="index < 2")
    assert list(jobs_in(world)) == ["f-a-0", "f-a-1"]
    world = end_jobs(world, "Failed", "f-a-0")
    assert outcome(world)[1] == ""
    world = end_jobs(world, "Failed", "f-a-1")
    assert outcome(world)[:2] == ("Failed", "TooManyFailed")


def test_a_step_none_of_whose_items_is_taken_is_completed() -> None:
    assert outcome(started(2, min_success=1, when="false"))[0] == "Completed"
