"""`failedAttempts`: what failed before the present attempt of a run."""

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace as changed

from jobflow.api.flow.control import ForEach
from jobflow.api.flow.status import FailedAttempt, RunCondition, StepCondition
from jobflow.api.flow.step import Step
from jobflow.authoring.results import Result
from jobflow.core.explain.explain import explain_step
from jobflow.core.planning.observed.failed_attempts import keep_newest
from jobflow.core.planning.status.size_limit import DROPS
from jobflow.display.tree import Tree
from support.plan.flow_statuses import NOW, one
from support.plan.loop_worlds import end_jobs, finish, retried, wait
from support.plan.plan_world import World, flow

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
OOM = FailedAttempt(
    attempt=2, exit_code=137, reason="OOMKilled", node="n1", message="Killed", time=NOON
)
LATE = FailedAttempt(attempt=3, reason="Timeout", time=NOON + timedelta(seconds=1))


def failed_attempts(world: World, step: str = "a") -> list[FailedAttempt]:
    return world.plan().conditions[step].failed_attempts or []


def fail(world: World, name: str) -> World:
    return finish(world, name, "boom", phase="Failed").settled()


def test_failed_attempts_stay_after_the_retry_has_completed() -> None:
    world = wait(fail(retried().settled(), "f-a"))
    world = end_jobs(wait(fail(world, "f-a-r1")), "Completed", "f-a-r2")
    assert world.plan().phases["a"] == "Completed"
    first, second = failed_attempts(world)
    assert first == FailedAttempt(
        attempt=1, exit_code=1, reason="Error", node="n-f-a", message="boom", time=first.time
    )
    assert (second.attempt, second.node) == (2, "n-f-a-r1")
    assert first.time is not None and second.time is not None
    assert first.time < second.time


def test_an_attempt_without_a_pod_has_its_own_reason() -> None:
    world = end_jobs(retried().settled(), "Aborted", "f-a")
    [failed] = failed_attempts(world)
    assert (failed.reason, failed.exit_code, failed.node) == ("JobAborted", None, "")


def test_the_last_three_of_a_run_stay() -> None:
    world = retried(limit=4).settled()
    for name in ("f-a", "f-a-r1", "f-a-r2", "f-a-r3"):
        world = wait(fail(world, name))
    assert [each.attempt for each in failed_attempts(world)] == [2, 3, 4]


def test_what_failed_before_a_retry_of_the_flow_stays() -> None:
    world = flow("a").settled()
    world = fail(world, "f-a").later(100).with_command("RestartJob", name="again").settled()
    world = end_jobs(world.with_missing("f-a-r1").settled(), "Completed", "f-a-r1")
    assert world.plan().phases["a"] == "Completed"
    assert [each.attempt for each in failed_attempts(world)] == [1]


def test_a_first_attempt_that_completes_or_fails_has_none() -> None:
    for phase in ("Completed", "Failed"):
        assert failed_attempts(end_jobs(flow("a").settled(), phase, "f-a")) == []


def test_the_last_fifty_of_a_flow_stay() -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)

    def failures(index: int) -> list[FailedAttempt]:
        times = [start + timedelta(seconds=index + 100 * n) for n in (1, 2)]
        return [FailedAttempt(attempt=n, time=time) for n, time in enumerate(times, 1)]

    runs = [RunCondition(index=i, failed_attempts=failures(i)) for i in range(30)]
    own = [FailedAttempt(attempt=1, time=start)]
    found = keep_newest({"a": StepCondition(runs=runs), "b": StepCondition(failed_attempts=own)})
    kept = [len(run.failed_attempts or ()) for run in found["a"].runs or ()]
    assert kept == [1] * 10 + [2] * 20
    assert found["b"].failed_attempts is None


def test_they_are_dropped_first() -> None:
    condition = StepCondition(phase="Completed", failed_attempts=[OOM])
    status = one(Step(name="a"), condition).status
    [left] = (DROPS[0](status, {}).conditions or {}).values()
    assert left == changed(condition, failed_attempts=None)


@pytest.mark.parametrize(("index", "place"), [(None, "a"), (1, "a/1")])
def test_why_the_tree_and_results_show_them(index: int | None, place: str) -> None:
    fields = {"phase": "Completed", "job": "f-a", "attempts": 4, "failed_attempts": [OOM, LATE]}
    if index is None:
        found = one(Step(name="a"), StepCondition(**fields))
    else:
        runs = [RunCondition(index=0, phase="Completed"), RunCondition(index=1, **fields)]
        step = Step(name="a", for_each=ForEach(count=2))
        found = one(step, StepCondition(phase="Completed", runs=runs))
    told = list(explain_step(found, "a", index=index, now=NOW).sentences)
    assert "Attempt 2 failed at 12:00:00 UTC: exit code 137 (OOMKilled) on node n1: Killed." in told
    assert "Attempt 3 failed at 12:00:01 UTC: Timeout." in told
    lines = [line.plain.strip() for line in Tree(found, items=True).lines(NOW, 100)]
    assert lines[-2:] == [
        "attempt 2 failed at 12:00:00 UTC: exit code 137 (OOMKilled) on node n1: Killed",
        "attempt 3 failed at 12:00:01 UTC: Timeout",
    ]
    assert not any("failed at" in line.plain for line in Tree(found).lines(NOW, 80))
    result = Result(found)["a"]
    shown = result if index is None else result.items[index]
    assert shown.failed_attempts == [OOM, LATE]
    assert shown.to_dict()["failed_attempts"][0]["message"] == "Killed"
