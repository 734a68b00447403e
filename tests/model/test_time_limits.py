"""Small flows with limits of the time of a job end as the reference and the page say."""

from collections.abc import Callable

import pytest

from jobflow.api.flow.control import Retry
from model.acting import NEVER, Script
from model.small_flows import reasons, row, step
from support.plan.plan_world import World
from support.plan.steps import after

IN_QUEUE = Script(pending=NEVER)
SUSPENDED = ((1, "SuspendFlow"), (9, "ResumeJob"))


def after_a(cause: str, limit: int = 1) -> Retry:
    return Retry(limit=limit, when=f'failure.reason == "{cause}"')


OUTPUT_AS_TIMEOUT = (
    step("a"),
    step("b", depends_on=after("a"), timeout="$(vars.t)", vars={"t": 'steps["a"].outputs.n'}),
)
ROWS = [
    row(
        "each attempt has the time that its vars give",
        {"a": ""},
        step("a", timeout="$(vars.t)", vars={"t": "attempt"}, retry=after_a("Timeout", 3)),
        scripts={"a": (Script(lasts=4),)},
        jobs="a a-r1 a-r2",
    ),
    row(
        "an attempt that fails by itself is not retried if only a timeout is",
        {"a": "JobFailed"},
        step("a", timeout="$(vars.t)", vars={"t": "attempt"}, retry=after_a("Timeout", 3)),
        scripts={"a": (Script(lasts=4), Script(lasts=1, end="Failed"))},
        jobs="a a-r1",
    ),
    row(
        "a value that is no timeout fails the step, and nothing is created",
        {"a": "", "b": "ExpressionError"},
        *OUTPUT_AS_TIMEOUT,
        scripts={"a": (Script(output={"n": "none"}),)},
        jobs="a",
    ),
    row(
        "an output is the number of seconds of another step",
        {"a": "", "b": "Timeout"},
        *OUTPUT_AS_TIMEOUT,
        scripts={"a": (Script(output={"n": 2}),), "b": (Script(lasts=9),)},
    ),
    row(
        "a job that stays in its queue is aborted, and the next attempt runs",
        {"a": ""},
        step("a", queue_timeout="2s", retry=after_a("QueueTimeout")),
        scripts={"a": (IN_QUEUE, Script(lasts=9))},
        jobs="a a-r1",
    ),
    row(
        "a job that runs in time may run longer than its queueTimeout",
        {"a": ""},
        step("a", queue_timeout="2s"),
        scripts={"a": (Script(pending=2, lasts=9),)},
    ),
    row(
        "a job that runs first while its flow is suspended was not too long in its queue",
        {"a": ""},
        step("a", queue_timeout="3s"),
        scripts={"a": (Script(pending=8),)},
        commands=SUSPENDED,
        jobs="a",
    ),
    row(
        "the queueTimeout goes on after a suspension",
        {"a": "QueueTimeout"},
        step("a", queue_timeout="3s"),
        scripts={"a": (IN_QUEUE,)},
        commands=SUSPENDED,
        jobs="a",
    ),
    row(
        "a new process knows the limits of the attempts that it finds",
        {"a": "Timeout", "b": "QueueTimeout"},
        step("a", timeout="$(vars.t)", vars={"t": "attempt"}),
        step("b", queue_timeout="3s"),
        scripts={"a": (Script(lasts=9),), "b": (IN_QUEUE,)},
        crashes=3,
    ),
]  # fmt: skip


@pytest.mark.parametrize(("flow", "ends", "jobs"), ROWS)
def test_a_limit_of_time_ends_an_attempt_for_its_reason(
    flow: Callable[[], World], ends: dict[str, str], jobs: str
) -> None:
    world = flow()
    assert reasons(world) == ends
    assert not jobs or set(world.jobs) == {f"f-{name}" for name in jobs.split()}
