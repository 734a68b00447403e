"""`dependsOn.items: Matching`: items that depend on single items of their targets."""

import pytest

from jobflow.api import labels
from jobflow.api.flow.control import Approval, ForEach, Retry
from jobflow.api.flow.status import JobFlowStatus, RunCondition
from jobflow.api.flow.step import DependsOn, Step
from jobflow.core.explain.explain import explain_step
from support.plan.loop_worlds import end_jobs
from support.plan.plan_world import World, flow
from support.plan.steps import step

THREE = ForEach(items=["x", "y", "z"])
ENDS = ("Completed", "Failed", "Completed")


def matching(
    targets: str = "a",
    *,
    condition: str | None = None,
    strategy: str | None = None,
    **fields: object,
) -> Step:
    depends_on = DependsOn(
        targets=targets.split(), condition=condition, strategy=strategy, items="Matching"
    )
    return Step(depends_on=depends_on, **fields)  # type: ignore[arg-type]


def pipeline(a: Step | None = None, **b: object) -> World:
    """Each of three items of b depends on the same item of a."""
    condition = b.pop("condition", None)
    step_b = matching(condition=condition, **b)  # type: ignore[arg-type]
    return flow(a=a or step(for_each=THREE), b=step_b).settled().settled()


def all_end(world: World, step: str, *phases: str) -> World:
    """End the jobs of all items at the same time."""
    for index, phase in enumerate(phases):
        world = world.ended(f"f-{step}-{index}", phase)
    return world.settled()


def runs(world: World, step: str) -> dict[int | None, str]:
    found = world.plan().conditions[step].runs or []
    return {run.index: f"{run.phase} {run.reason}".strip() for run in found}


def jobs(world: World) -> set[str]:
    return {name for name in world.jobs if name.startswith("f-b")}


def test_an_item_starts_when_the_same_item_of_its_target_has_completed() -> None:
    world = pipeline()
    assert world.plan().waiting == {"b": "waits for item 0 of a (Pending)"}
    world = end_jobs(world, "Completed", "f-a-1")
    assert (jobs(world), world.plan().phases["a"]) == ({"f-b-1"}, "Running")
    message = world.plan().conditions["b"].message
    assert message == "0 of 3 items have ended, 1 under way; item 0 waits for item 0 of a (Pending)"


def test_a_step_without_for_each_has_the_items_of_its_target() -> None:
    world = end_jobs(pipeline(), "Completed", "f-a-2")
    decisions = world.plan().conditions["b"].decisions
    assert decisions is not None
    assert decisions.items == ["x", "y", "z"]
    world = pipeline(for_each=ForEach(parallelism=1))
    world = all_end(world, "a", "Completed", "Completed", "Completed")
    assert jobs(world) == {"f-b-0"}


def test_with_the_last_step_first_few_items_are_begun_and_not_finished() -> None:
    world = flow(b=matching(), a=step(for_each=ForEach(count=6))).with_spec(parallelism=2).settled()
    while running := [name for name, job in sorted(world.jobs.items()) if not job.ended]:
        begun, done = (set(runs(world, name)) for name in ("a", "b"))
        assert len(begun - done) <= 3
        world = end_jobs(world, "Completed", running[-1])
    assert world.plan().phases == {"a": "Completed", "b": "Completed"}


def test_retries_of_a_target_item_are_waited_for() -> None:
    world = end_jobs(pipeline(step(for_each=THREE, retry=Retry(limit=1))), "Failed", "f-a-0")
    assert (jobs(world), runs(world, "b")) == (set(), {})
    world = end_jobs(world.later(5).settled(), "Completed", "f-a-0-r1")
    assert jobs(world) == {"f-b-0"}


@pytest.mark.parametrize("policy", [None, "Continue"])
@pytest.mark.parametrize("at_once", [True, False])
def test_an_item_is_skipped_for_its_target_item_and_the_others_go_on(
    policy: str | None, at_once: bool
) -> None:
    world = pipeline().with_spec(failure_policy=policy)
    if at_once:
        world = all_end(world, "a", *ENDS)
    else:
        for index in (1, 0, 2):
            world = end_jobs(world, ENDS[index], f"f-a-{index}")
    assert jobs(world) == {"f-b-0", "f-b-2"}
    assert runs(world, "b")[1] == "Skipped UpstreamFailed"
    planned = end_jobs(end_jobs(world, "Completed", "f-b-0"), "Completed", "f-b-2").plan()
    assert planned.failed == {"a": "JobFailed", "b": "UpstreamFailed"}
    assert planned.conditions["b"].message == (
        "1 of 3 items skipped; item 1 (y): item 1 of a (Failed) did not end as required"
    )


def test_a_step_of_which_no_item_began_is_skipped() -> None:
    world = all_end(pipeline(), "a", "Failed", "Failed", "Failed")
    assert world.plan().skipped == {"b": "UpstreamFailed"}
    one_by_one = pipeline(step(for_each=ForEach(count=3, parallelism=1)))
    assert end_jobs(one_by_one, "Failed", "f-a-0").plan().skipped == {"b": "UpstreamFailed"}


def test_a_step_that_fails_at_once_behind_skipped_items_does_not_change_why_they_are() -> None:
    b = matching(for_each=ForEach(count=2))
    mismatch = matching("b", condition="Finished", for_each=ForEach(count=0))
    world = flow(a=step(for_each=ForEach(count=2)), b=b, c=mismatch).settled()
    planned = all_end(world, "a", "Failed", "Failed").plan()
    assert planned.failed == {"a": "JobFailed", "c": "ItemsMismatch"}
    assert planned.skipped == {"b": "UpstreamFailed"}


def test_a_step_between_two_that_fail_at_once_is_stopped_by_the_first() -> None:
    one = ForEach(count=1)
    asks = Step(approval=Approval(), for_each=THREE)
    b = matching("a", condition="Finished", for_each=one)
    c = matching("a b", when="false")
    world = flow(a=asks, b=b, c=c, d=matching("b c a", strategy="any"))
    planned = world.with_spec(failure_policy="Abort").settled().plan()
    assert planned.failed == {"b": "ItemsMismatch", "d": "ItemsMismatch"}
    assert planned.skipped == {"a": "Stopped", "c": "Stopped"}


def test_an_item_that_fails_before_it_asks_for_approval_lets_the_item_behind_it_start() -> None:
    ask = step("x", approval=Approval(message="$(steps.x.outputs.n)?"), for_each=ForEach(count=3))
    world = flow(x=step(), a=ask, b=matching(condition="Finished", for_each=THREE))
    world = end_jobs(world.settled(), "Completed", "f-x")
    assert world.plan().failed == {"a": "ExpressionError"}
    assert (jobs(world), runs(world, "b")[1]) == ({"f-b-0"}, "Skipped NotTaken")


def test_abort_starts_no_further_item() -> None:
    world = all_end(pipeline().with_spec(failure_policy="Abort"), "a", *ENDS)
    assert (jobs(world), list(world.plan().skipped)) == (set(), ["b"])
    world = end_jobs(pipeline().with_spec(failure_policy="Abort"), "Completed", "f-a-0")
    world = end_jobs(end_jobs(world, "Completed", "f-a-2"), "Failed", "f-a-1")
    assert world.plan().aborts == []
    assert world.plan().conditions["b"].reason == "FailurePolicy"


def test_a_tolerated_failure_of_a_target_item_starts_the_item() -> None:
    world = all_end(pipeline(step(for_each=THREE, continue_on_failure=True)), "a", *ENDS)
    assert jobs(world) == {"f-b-0", "f-b-1", "f-b-2"}


def test_an_item_that_fails_itself_stops_the_items_that_have_not_started() -> None:
    world = end_jobs(end_jobs(pipeline(), "Completed", "f-a-0"), "Failed", "f-b-0")
    condition = world.plan().conditions["b"]
    assert (condition.phase, condition.message) == (
        "Failed", "2 of 3 items not started; item 0 (x): the job f-b-0 ended Failed"
    )  # fmt: skip
    world = end_jobs(pipeline(continue_on_failure=True), "Completed", "f-a-0")
    world = end_jobs(end_jobs(world, "Failed", "f-b-0"), "Completed", "f-a-1")
    assert jobs(world) == {"f-b-0", "f-b-1"}


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("Failed", {0: "Skipped NotTaken", 1: "Pending", 2: "Skipped NotTaken"}),
        ("Finished", {0: "Pending", 1: "Pending", 2: "Pending"}),
        ("NotFailed", {0: "Pending", 1: "Skipped UpstreamFailed", 2: "Pending"}),
        ("Always", {0: "Pending", 1: "Pending", 2: "Pending"}),
    ],
)
def test_each_item_must_meet_the_condition(condition: str, expected: dict[int, str]) -> None:
    world = all_end(pipeline(condition=condition), "a", *ENDS)
    assert runs(world, "b") == expected


def test_items_that_are_not_taken_do_not_fail_the_step() -> None:
    world = end_jobs(all_end(pipeline(condition="Failed"), "a", *ENDS), "Completed", "f-b-1")
    assert world.plan().phases["b"] == "Completed"
    world = all_end(pipeline(condition="Failed"), "a", "Completed", "Completed", "Completed")
    assert world.plan().skipped == {"b": "NotTaken"}


@pytest.mark.parametrize("condition", ["NotFailed", "Always"])
def test_items_behind_a_step_that_was_not_taken_start(condition: str) -> None:
    untaken = step("x", for_each=THREE, when="false")
    world = flow(x=step(), a=untaken, b=matching(condition=condition)).settled()
    world = end_jobs(world, "Completed", "f-x").settled()
    assert jobs(world) == {"f-b-0", "f-b-1", "f-b-2"}
    decisions = world.plan().conditions["b"].decisions
    assert decisions is not None and decisions.items == ["x", "y", "z"]


OPTIONAL = {"a": step(for_each=ForEach(count=2)), "trim": matching("a", when="false")}


@pytest.mark.parametrize("condition", ["NotFailed", "Always"])
def test_items_behind_an_optional_step_wait_for_the_items_before_it(condition: str) -> None:
    world = flow(**OPTIONAL, b=matching("trim", condition=condition)).settled().settled()
    assert world.plan().conditions["b"].message == "waits for item 0 of a (Pending)"
    world = end_jobs(world, "Completed", "f-a-1")
    assert jobs(world) >= {"f-b-1"} and "f-b-0" not in jobs(world)


def test_an_item_behind_an_optional_step_is_skipped_for_the_item_before_it() -> None:
    tolerant = step(for_each=ForEach(count=2, max_failed=1))
    world = flow(a=tolerant, trim=OPTIONAL["trim"], b=matching("trim", condition="NotFailed"))
    world = end_jobs(world.settled().settled(), "Failed", "f-a-0")
    assert runs(world, "b")[0] == "Skipped UpstreamFailed"
    message = (world.plan().conditions["b"].runs or [])[0].message
    assert message == "item 0 of a (Failed) did not end as required"


def test_an_item_ignores_an_optional_step_once_the_item_before_it_has_ended() -> None:
    world = flow(**OPTIONAL, p=step(for_each=ForEach(count=2)), b=matching("trim p"))
    world = end_jobs(world.settled().settled(), "Completed", "f-p-0", "f-p-1", "f-a-1")
    assert "f-b-1" in jobs(world) and "f-b-0" not in jobs(world)


def test_a_long_chain_of_optional_steps_is_looked_through() -> None:
    chain = {f"t{i}": matching(f"t{i - 1}" if i else "a", when="false") for i in range(1500)}
    world = flow(a=OPTIONAL["a"], **chain, b=matching("t1499", condition="Always")).settled()
    world = end_jobs(world.settled(), "Completed", "f-a-1")
    assert "f-b-1" in jobs(world)


def test_a_step_is_not_taken_if_no_target_was_that_lists_its_items() -> None:
    untaken = step(for_each=ForEach(from_="[1]"), when="false")
    world = flow(a=untaken, b=matching(condition="NotFailed")).settled()
    assert world.plan().skipped == {"a": "NotTaken", "b": "NotTaken"}
    assert world.plan().conditions["b"].message == "no target has items that are known"


def test_with_always_an_item_starts_whose_target_item_never_did() -> None:
    one_by_one = pipeline(step(for_each=ForEach(count=3, parallelism=1)), condition="Always")
    world = end_jobs(one_by_one, "Failed", "f-a-0")
    assert runs(world, "b") == {0: "Pending", 1: "Pending", 2: "Pending"}


def test_an_item_can_start_when_its_target_item_runs() -> None:
    world = end_jobs(pipeline(condition="Running"), "Running", "f-a-2")
    assert jobs(world) == {"f-b-2"}


def test_targets_without_items_count_as_a_whole() -> None:
    world = flow("p", a=step(for_each=THREE), b=matching("a p")).settled()
    world = all_end(world, "a", "Completed", "Completed", "Completed")
    assert world.plan().waiting == {"b": "waits for p (Pending)"}
    assert len(jobs(end_jobs(world, "Completed", "f-p"))) == 3
    assert end_jobs(world, "Failed", "f-p").plan().skipped == {"b": "UpstreamFailed"}


def test_items_follow_a_chain_of_steps() -> None:
    world = flow(a=step(for_each=THREE), b=matching(), c=matching("b")).settled().settled()
    world = end_jobs(end_jobs(world.settled(), "Completed", "f-a-1"), "Completed", "f-b-1")
    assert world.plan().conditions["c"].runs == [
        RunCondition(
            index=1, phase="Pending", job="f-c-1", uid="uid-f-c-1", attempts=1,
            create_time=world.jobs["f-c-1"].metadata.creation_timestamp,
            last_transition_time=world.jobs["f-c-1"].metadata.creation_timestamp,
        )
    ]  # fmt: skip
    world = end_jobs(world, "Failed", "f-a-0")
    assert (runs(world, "b")[0], runs(world, "c")[0]) == ("Skipped UpstreamFailed",) * 2


def test_items_are_decided_once_those_of_the_targets_are() -> None:
    lists = flow(
        "p",
        a=step("p", for_each=ForEach(from_="[1, 2]")),
        b=matching(for_each=ForEach(from_='["x", "y"]')),
    ).settled()
    assert lists.plan().waiting["b"] == "waits for the items of a (Waiting)"
    lists = end_jobs(lists, "Completed", "f-p").settled()
    decisions = lists.plan().conditions["b"].decisions
    assert decisions is not None
    assert decisions.items == ["x", "y"]
    assert lists.plan().phases["a"] == "Running"


def test_another_number_of_items_fails_the_step() -> None:
    planned = pipeline(for_each=ForEach(count=2)).plan()
    assert planned.failed == {"b": "ItemsMismatch"}
    assert planned.conditions["b"].message == (
        "it has 2 items and a has 3; items: Matching needs as many"
    )


def test_a_target_that_is_not_taken_is_ignored() -> None:
    branch = step(for_each=ForEach(count=1), when="false")
    world = flow(a=step(for_each=THREE), n=branch, b=matching("n a")).settled().settled()
    assert jobs(end_jobs(world, "Completed", "f-a-0")) == {"f-b-0"}
    alone = flow(n=branch, b=matching("n")).settled()
    assert alone.plan().skipped == {"n": "NotTaken", "b": "NotTaken"}


def test_a_suspension_holds_items_back() -> None:
    world = pipeline().with_command("SuspendFlow").settled()
    world = end_jobs(world, "Completed", "f-a-0")
    assert jobs(world) == set()
    assert jobs(world.with_command("ResumeJob").settled()) == {"f-b-0"}


def test_a_cancel_ends_the_step() -> None:
    world = end_jobs(pipeline(), "Completed", "f-a-0").cancelled()
    world = world.ended("f-b-0", "Aborted").ended("f-a-1", "Aborted").ended("f-a-2", "Aborted")
    assert world.settled().end == ("Failed", "Cancelled")


def test_a_retry_runs_failed_and_skipped_items_again() -> None:
    world = all_end(pipeline(), "a", *ENDS)
    world = end_jobs(end_jobs(world, "Completed", "f-b-0"), "Completed", "f-b-2")
    world = world.with_command("RestartJob").settled().settled()
    assert runs(world, "b") == {0: "Completed", 2: "Completed"}
    assert [name for name in world.jobs if world.jobs[name].phase == "Pending"] == ["f-a-1-r1"]
    world = end_jobs(end_jobs(world, "Completed", "f-a-1-r1"), "Completed", "f-b-1")
    assert world.end == ("Succeed", "")


def test_a_job_of_an_item_records_how_the_target_item_ended() -> None:
    before = pipeline()
    job = end_jobs(before, "Completed", "f-a-1").jobs["f-b-1"]
    assert (job.metadata.annotations or {})[labels.TARGET_ENDS] == (
        '{"a/1":{"phase":"Completed","attempts":1}}'
    )
    crashed = before.with_job(job).without_jobs("a-1").with_missing("f-a-1")
    planned = crashed.plan()
    assert (runs(crashed, "a")[1], runs(crashed, "b")[1]) == ("Completed", "Pending")
    assert (planned.creates, planned.phases["a"]) == ([], "Running")
    lost_too = crashed.with_status(JobFlowStatus())
    assert runs(lost_too, "a")[1] == "Completed"
    assert "f-a-1" not in " ".join(lost_too.plan().creates)


def test_next_jobs_are_those_of_items_whose_target_items_run() -> None:
    assert pipeline().flow.status.next_jobs == ["f-b-0", "f-b-1", "f-b-2"]
    world = end_jobs(pipeline(step(for_each=ForEach(count=3, parallelism=1))), "Completed", "f-a-0")
    assert world.flow.status.next_jobs == ["f-a-2", "f-b-1"]


def test_why_follows_the_items() -> None:
    world = end_jobs(pipeline(), "Running", "f-a-2")
    sentences = explain_step(world.flow, "b", index=2, now=world.now).sentences
    assert sentences[0] == "Step b/2 has been waiting for a/2 (Running) to complete."
    assert sentences[1].startswith("Step a/2 has been Running")
