"""Flows that reuse others, have failed attempts or are steered by hand, in flight during an upgrade
and the rollback: the earlier version knows nothing of that, and goes on with the results."""

from jobflow.api.volcano.command import Action
from support.cluster.in_flight import InFlight, Life, Stage
from support.sandbox.manifests import flow, step


def knows_the_attempt(life: Life) -> bool:
    attempts = life.condition("a").failed_attempts or ()
    return [each.attempt for each in attempts] == [2]


STEERED = (
    InFlight(
        flow("attempts", step("a", retry={"limit": 3, "backoff": {"duration": "0s"}})),
        [Stage(ends={"attempts-a": "Failed"}, steps={"a": "Pending"})],
        [Stage(ends={"attempts-a-r1": "Failed"}, steps={"a": "Pending"}, holds=knows_the_attempt)],
        [Stage(ends={"attempts-a-r2": "Completed"}, phase="Succeed")],
    ),
    InFlight(
        flow("first", step("a"), step("b", "a")),
        [],
        [Stage(ends={"first-a": "Completed", "first-b": "Completed"}, phase="Succeed")],
        [Stage(phase="Succeed")],
    ),
    InFlight(  # b has changed
        flow(
            "second",
            step("a"),
            step("b", "a", env={"SEED": "2"}),
            step("c", "b"),
            reuse={"flow": "first"},
        ),
        [],
        [Stage(ends={"second-b": "Completed"}, steps={"a": "Completed Reused", "c": "Pending"})],
        [Stage(ends={"second-c": "Completed"}, steps={"a": "Completed Reused"}, phase="Succeed")],
    ),
    InFlight(  # the flow that it reuses has run under the earlier version
        flow("third", step("a"), step("b", "a"), reuse={"flow": "ended"}),
        [],
        [Stage(ends={"third-a": "Completed"}, steps={"a": "Completed", "b": "Pending"})],
        [Stage(ends={"third-b": "Completed"}, phase="Succeed")],
    ),
    InFlight(  # for the earlier version, an item that was skipped is one that failed
        flow(
            "steered",
            step("a", forEach={"count": 4, "parallelism": 1}, continueOnFailure=True),
            step("b", "a"),
        ),
        [Stage(ends={"steered-a-0": "Running"}, steps={"a": "Running"})],
        [
            Stage(
                action=Action.CANCEL_STEP,
                text="a/0",
                ends={"steered-a-0": "Aborted", "steered-a-1": "Running"},
            ),
            Stage(
                action=Action.SKIP_STEP,
                text="a/1",
                ends={"steered-a-1": "Aborted", "steered-a-2": "Running"},
            ),
            Stage(action=Action.RETRY_STEPS, text="a/0"),
            Stage(
                action=Action.SCALE_FLOW,
                text="a=2",
                ends={"steered-a-2": "Completed", "steered-a-3": "Running"},
            ),
        ],
        [
            Stage(
                ends={
                    "steered-a-0-r1": "Completed",
                    "steered-a-3": "Completed",
                    "steered-b": "Completed",
                },
                steps={"a": "Failed SkippedByUser"},
                phase="Succeed",
            )
        ],
    ),
)
