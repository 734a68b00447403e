"""Small flows from random ones that once ended in an unexpected way."""

from collections.abc import Callable

import pytest

from jobflow.api.flow.control import Approval, ForEach, Repeat, Retry
from jobflow.api.flow.control import Case as Switched
from jobflow.api.flow.step import Step
from model.acting import NEVER, Script
from model.random_values import CHILD
from model.small_flows import (
    ASKS,
    EVICTED,
    FAILS,
    NO_SUCH_ITEM,
    matching,
    reasons,
    row,
    step,
    use_output,
)
from support.plan.plan_world import World
from support.plan.steps import after

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
        timeout="7s",
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
        timeout="2s",
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
    # The end of the last step is not known before the pods of its job have been read.
    row(
        "a daemon starts again while the pods of the last job are read",
        {"c": "JobTerminated", "b": "DaemonEnded", "a": "", "d": ""},
        step("c", depends_on=after("a")),
        step("b", retry=Retry(limit=2), daemon=True),
        step("a"),
        step("d"),
        scripts={
            "c": (EVICTED,),
            "b": (Script(end="Failed"),),
            **dict.fromkeys("ad", (Script(lasts=1),)),
        },
        parallelism=2,
        jobs="a b b-r1 c d",
    ),
    row(
        "no item starts while it is read whether another has failed",
        {"a": "JobTerminated", "b": "Stopped"},
        step("a", for_each=ForEach(items=["x", "y"])),
        step("b"),
        scripts={"a": (EVICTED,)},
        parallelism=1,
        jobs="a-0",
    ),
    row(
        "a step that waits for room starts before an item while the end of another item is read",
        {"b": "JobTerminated", "c": "", "a": ""},
        step("b", continue_on_failure=True),
        step("c", depends_on=after("b")),
        step("a", for_each=ForEach(items=["x", "y"]), retry=ASKS),
        scripts={"a": (EVICTED, Script()), "b": (EVICTED,)},
        parallelism=1,
        jobs="b c a-0 a-0-r1 a-1",
    ),
    row(
        "a rejection aborts no step that handles it",
        {"ok": "Rejected", "x": "FailurePolicy", "a": "", "e": "", "h": ""},
        Step(name="ok", approval=Approval()),
        step("x"),
        step("a"),
        step("e", depends_on=after("a ok", strategy="any", conditions={"ok": "Failed"})),
        step("h", depends_on=after("ok", condition="Failed")),
        scripts={"x": (Script(lasts=9),), "e": (Script(lasts=9),)},
        commands=((5, "RejectStep ok"),),
        failure_policy="Abort",
        jobs="x a e h",
    ),
    row(
        "items behind an optional step wait for the items before it, and are skipped with them",
        {"a": "JobFailed", "trim": "NotTaken", "b": "UpstreamFailed", "c": ""},
        step("a", for_each=ForEach(count=2)),
        step("trim", depends_on=matching("a"), when="false"),
        step("b", depends_on=matching("trim", condition="NotFailed")),
        step("c", depends_on=matching("trim", condition="Always")),
        scripts={"a": (Script(lasts=3, end="Failed"), Script(lasts=5))},
        failure_policy="Continue",
    ),
    row(
        "no item of a chain is taken, and what follows it runs",
        {"a": "", "b": "", "c": ""},
        step("a", for_each=ForEach(count=2, when="index > 1")),
        step("b", depends_on=matching("a")),
        step("c", depends_on=after("b")),
    ),
    row(
        "an approval asks although its dependant fails for its number of items",
        {"ok": "", "b": "ItemsMismatch", "c": "Stopped"},
        Step(name="ok", approval=Approval(), for_each=ForEach(count=3)),
        step("b", depends_on=matching("ok"), for_each=ForEach(count=2)),
        step("c", depends_on=after("ok")),
    ),
    # The failure of c shows at once that no item of e runs.
    row(
        "a step that handles a failure is not aborted for it",
        {"a": "JobFailed", "c": "JobFailed", "d": "UpstreamFailed", "e": "UpstreamFailed"},
        step("a", for_each=ForEach(count=2, parallelism=1)),
        step("c", depends_on=after("a", condition="Failed")),
        step("d", depends_on=matching("a")),
        step("e", depends_on=matching("a c d", condition="Failed")),
        scripts={"a": (Script(lasts=1), *FAILS), "c": FAILS, "d": (Script(lasts=1),)},
        failure_policy="Abort",
        jobs="a-0 a-1 c d-0",
    ),
    # c has decided about its items when it is stopped.
    row(
        "the items of a step that never began are not known",
        {"a": "", "f": "JobFailed", "c": "Stopped", "e": ""},
        step("a", for_each=ForEach(items=[1])),
        step("f"),
        step("c", depends_on=matching("a", condition="Running")),
        step(
            "e",
            depends_on=matching("c f", strategy="any", conditions={"f": "Failed"}),
            for_each=ForEach(count=2),
        ),
        scripts={"a": (Script(lasts=3),), "f": (Script(lasts=2, end="Failed"),)},
        parallelism=2,
        jobs="a-0 f e-0 e-1",
    ),
    row(
        "an item starts in the plan that stores the decision of a step that fails",
        {"a": "", "b": "ItemsMismatch", "c": "FailurePolicy"},
        step("a", for_each=ForEach(from_="[]")),
        step("b", depends_on=matching("a"), for_each=ForEach(count=2)),
        step("c", for_each=ForEach(count=2)),
        failure_policy="Abort",
        jobs="c-0 c-1",
    ),
    row(
        "completed items run again behind a step that does, and a tolerated failure stays",
        {"a": "", "b": "", "c": "JobFailed", "d": ""},
        step("a"),
        step("b", depends_on=after("a", condition="Finished"), for_each=ForEach(count=2)),
        step("c", continue_on_failure=True),
        step("d", depends_on=after("c")),
        commands=((19, "RestartJob"),),
        scripts={"a": (*FAILS, Script()), "c": FAILS},
        jobs="a a-r1 b-0 b-1 b-0-r1 b-1-r1 c d",
    ),
    row(
        "a flow that succeeded although an item failed is retried for that item",
        {"a": ""},
        step("a", for_each=ForEach(count=2, max_failed=1)),
        commands=((19, "RetryTolerated"),),
        scripts={"a": (*FAILS, Script())},
        jobs="a-0 a-1 a-0-r1",
    ),
    row(
        "until sees an item whose pods have to be read after one that completes with it",
        {"a": "ExpressionError"},
        step("a", for_each=ForEach(count=2, until="items[0].outputs.n > 1")),
        scripts={
            "a": (
                Script(lasts=1, output={"n": 1}, watched=False),
                Script(lasts=1, output={"n": "none"}),
            )
        },
    ),
    row(
        "a tolerated item runs again although enough others have completed",
        {"a": ""},
        step("a", for_each=ForEach(count=3, min_success=1, parallelism=1)),
        commands=((19, "RetryTolerated"),),
        scripts={"a": (*FAILS, Script())},
        jobs="a-0 a-1 a-0-r1",
    ),
    row(
        "a failed child flow is retried as often as its parent, unless a step before it runs again",
        {"a": "", "b": "", "c": ""},
        Step(name="a", flow=CHILD),
        Step(name="b", flow=CHILD, depends_on=after("c", condition="Finished")),
        step("c"),
        commands=((9, "RestartJob"), (19, "RestartJob")),
        scripts={"a": FAILS * 2 + (Script(),), "b": (*FAILS, Script()), "c": (*FAILS, Script())},
        jobs="a b b-r1 c c-r1",
    ),
    row(
        "items of a flow stop if one of two targets of another step is enough, and that fails",
        {"a": "", "d": "Stopped", "f": "Refused"},
        step("a"),
        step("d", depends_on=after("a"), when="true", for_each=ForEach(count=0)),
        step("f", depends_on=after("a d", strategy="any")),
        scripts={"f": (Script(refused=True),)},
        jobs="a",
    ),
    # c-0 fails at the same moment as a-1.
    row(
        "no item is skipped after another one has failed",
        {"a": "JobFailed", "c": "JobFailed", "d": ""},
        step("a", for_each=ForEach(count=2)),
        step("c", depends_on=matching("a", condition="Running")),
        step("d", depends_on=matching("c", condition="Failed")),
        scripts={"a": (Script(lasts=9), Script(runs=False, end="Failed", pending=3)), "c": FAILS},
        jobs="a-0 a-1 c-0 d-0",
    ),
    # All other steps end in that second.
    row(
        "a daemon between two attempts ends for the timeout of the flow",
        {"a": "Timeout", "c": "", "z": ""},
        step("a", retry=Retry(limit=2), daemon=True),
        step("c"),
        finally_=[step("z")],
        scripts={"a": (Script(end="Failed"),), "c": (Script(lasts=7),)},
        timeout="7s",
    ),
]


@pytest.mark.parametrize(("flow", "ends", "jobs"), ROWS)
def test_a_small_flow_ends_with_these_reasons(
    flow: Callable[[], World], ends: dict[str, str], jobs: str
) -> None:
    world = flow()
    assert reasons(world) == ends
    assert not jobs or set(world.jobs) == {f"f-{name}" for name in jobs.split()}
