"""The preview of a flow that reuses another one: why each run that is not reused runs."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from jobflow.api.flow.control import Approval, ForEach, Param, Repeat
from jobflow.api.flow.step import Step
from support.plan.loop_worlds import end_jobs, with_step
from support.plan.plan_world import World, flow, world_of
from support.plan.reusing_worlds import previewed, reasons, reusing
from support.plan.steps import TEMPLATE_SPEC, after, template


def says(*words: str, **fields: Any) -> dict[str, Any]:
    return {"container": {"image": "busybox", "args": list(words)}, **fields}


def chain(rate: str = "0.01", **second: Any) -> World:
    """Step b depends on a, and has the param `rate` in its arguments; c depends on b."""
    steps = [
        Step(name="a", **says("a")),
        Step(name="b", depends_on=after("a"), **(second or says("--rate", "$(params.rate)"))),
        Step(name="c", depends_on=after("b"), **says("c")),
    ]
    return world_of(steps).with_spec(params=[Param(name="rate", value=rate)])


def rated(world: World, rate: str) -> World:
    return world.with_spec(params=[Param(name="rate", value=rate)])


def failed(world: World, name: str) -> World:
    """Complete the jobs before this one, and let it fail."""
    world = world.settled()
    while name not in world.jobs:
        world = end_jobs(world, "Completed", *(n for n, job in world.jobs.items() if not job.ended))
    return end_jobs(world, "Failed", name)


def b(**fields: Any) -> Callable[[World], World]:
    return lambda world: with_step(world, "b", **fields)


def container(**fields: Any) -> Callable[[World], World]:
    changed = {"image": "busybox", "args": ["--rate", "$(params.rate)"], **fields}
    return b(container=changed)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda world: rated(world, "0.1"), "args[1] differs: 0.01 → 0.1"),
        (container(image="busybox:2"), "image differs: busybox → busybox:2"),
        (container(args=["--rate"]), "args[1] differs: 0.01 → not set"),
        (
            container(command=["x", "y"], args=["a", "b"], workingDir="/w"),
            "args[0] differs: --rate → a; args[1] differs: 0.01 → b; 2 more differences",
        ),
        (
            container(env=[{"name": "N", "value": "1"}]),
            'env differs: not set → [{"name":"N","value":"1"}]',
        ),
        (container(args=["--rate", ""]), 'args[1] differs: 0.01 → ""'),
        (container(args=["--rate", "x" * 99]), f"args[1] differs: 0.01 → {'x' * 59}…"),
        (b(reuse_policy="Never"), "its reusePolicy is Never"),
        (b(daemon=True), "a daemon starts in every flow"),
    ],
)
def test_what_a_run_does_differs(change: Callable[[World], World], why: str) -> None:
    found = reasons(change(reusing(chain().run())))
    assert found == {"b": why, "c": "its target b runs again"}


def test_of_texts_with_lines_the_first_line_that_differs_is_shown() -> None:
    first = chain(**says("import sys\nprint(1 / (n - 7))\nprint(2)"))
    new = with_step(reusing(first.run()), "b", **says("import sys\nprint(1 / (n - 6))\nprint(2)"))
    why = "args[0] line 2 differs: print(1 / (n - 7)) → print(1 / (n - 6))"
    assert reasons(new)["b"] == why


def test_of_several_containers_and_tasks_the_path_names_them() -> None:
    def job(image: str) -> dict[str, Any]:
        return {
            "job_spec": {
                "tasks": [
                    {
                        "name": name,
                        "replicas": 1,
                        "template": {"spec": {"containers": [{"name": "main", "image": each}]}},
                    }
                    for name, each in (("ps", "busybox"), ("worker", image))
                ]
            }
        }

    new = with_step(reusing(chain(**job("busybox")).run()), "b", **job("alpine"))
    why = "tasks[worker].containers[main].image differs: busybox → alpine"
    assert reasons(new)["b"] == why


def test_a_template_that_has_changed_is_named() -> None:
    first = flow("a", b="a", c="b").run()
    spec = msgspec.json.decode(msgspec.json.encode(TEMPLATE_SPEC).replace(b"busybox", b"alpine"))
    new = replace(reusing(first), templates={**first.templates, "b": template("b", spec)})
    found = reasons(new)
    assert found["b"] == "its template or JobFlow has changed since f"
    assert found["c"] == "its target b runs again"


def test_what_failed_or_was_never_reached() -> None:
    base = failed(chain(), "f-b")
    found = reasons(rated(reusing(base), "0.1"))
    why = "it failed in f; args[1] differs: 0.01 → 0.1"
    assert found == {"b": why, "c": "its target b runs again"}
    new = with_step(reusing(base), "c", depends_on=None)
    same = "it failed in f, and would run the same again"
    assert reasons(new) == {"b": same, "c": "f never reached it"}


def test_of_a_failed_run_with_a_template_only_a_change_is_known() -> None:
    base = failed(flow("a", b="a"), "f-b")
    same = "it failed in f, and would run the same again, unless its template has changed since"
    assert reasons(reusing(base)) == {"b": same}
    mended = with_step(reusing(base), "b", **says("b"))
    assert reasons(mended)["b"].startswith("it failed in f; ")


def test_what_was_cancelled_is_not_said_to_have_failed() -> None:
    cancelled = end_jobs(chain().settled(), "Completed", "f-a").cancelled()
    cancelled = end_jobs(cancelled, "Aborted", "f-b")
    assert reasons(reusing(cancelled))["b"] == "it was cancelled in f"


def test_an_earlier_flow_that_has_a_result_is_named() -> None:
    base = flow("a", "b").run()
    middle = failed(reusing(base, name="g", flows=[Step(name="x"), *base.flow.steps]), "g-x")
    middle = middle.cancelled().settled().run()
    assert middle.flow.final
    fresh = middle.flow.status.conditions or {}
    lost = {key: each for key, each in fresh.items() if key != "g-b"}
    middle = middle.with_status_fields(conditions=lost)
    found = reasons(reusing(middle, name="h", flows=base.flow.spec.flows), base)
    assert found == {"b": "g never reached it; f has it: reuse f instead"}


def test_steps_that_are_new_approvals_and_finally_say_so() -> None:
    first = chain().run()
    steps = [
        *first.flow.steps,
        Step(name="x"),
        Step(name="ok", approval=Approval()),
        Step(name="d", depends_on=after("ok")),
    ]
    new = reusing(first, flows=steps).with_finally("end").with_template("x").with_template("d")
    assert reasons(new) == {
        "x": "f has no such step",
        "ok": "an approval is asked for again",
        "d": "f has no such step",
        "end": "finally runs in every flow",
    }


def test_what_follows_an_approval_may_be_reused() -> None:
    steps = [
        Step(name="a"),
        Step(name="ok", approval=Approval(), depends_on=after("a")),
        Step(name="b", depends_on=after("ok")),
    ]
    first = end_jobs(world_of(steps).settled(), "Completed", "f-a")
    first = end_jobs(first.with_command("ApproveStep", text="ok").settled(), "Completed", "f-b")
    assert first.flow.final
    assert reasons(reusing(first)) == {"ok": "an approval is asked for again"}


def test_what_waits_for_an_approval_behind_a_change_runs() -> None:
    steps = [
        Step(name="a", **says("a")),
        Step(name="ok", approval=Approval(), depends_on=after("a")),
        Step(name="b", depends_on=after("ok")),
    ]
    first = end_jobs(world_of(steps).settled(), "Completed", "f-a")
    first = end_jobs(first.with_command("ApproveStep", text="ok").settled(), "Completed", "f-b")
    assert reasons(with_step(reusing(first), "a", **says("b"))) == {
        "a": "args[0] differs: a → b",
        "ok": "an approval is asked for again",
        "b": "its target ok is asked for again",
    }


def sweep(*items: Any, **fields: Any) -> World:
    each = Step(name="a", for_each=ForEach(items=list(items)), **says("$(item)", **fields))
    return world_of([each, Step(name="b", depends_on=after("a"))])


def test_each_item_that_runs_has_a_line() -> None:
    new = with_step(reusing(sweep(*"abc").run()), "a", for_each=ForEach(items=[*"axcd"]))
    assert reasons(new) == {
        "a/1": "args[0] differs: b → x",
        "a/3": "f has no such item",
        "b": "its target a runs again",
    }
    assert [*previewed(new).lines()][0] == "Reused from f: a (2 of 4)"


def test_an_item_of_which_there_are_more_now_says_that_its_result_is_taken() -> None:
    new = with_step(reusing(sweep("x").run()), "a", for_each=ForEach(items=["x", "x"]))
    assert reasons(new)["a/1"] == "another item has the result of f"


def test_a_repeat_differs_as_a_whole() -> None:
    first = world_of([Step(name="a", repeat=Repeat(until="index == 2", max=5), **says("a"))])
    new = with_step(reusing(first.run()), "a", repeat=Repeat(until="index == 1", max=5))
    assert reasons(new) == {"a": "the end of its repeat differs"}


def test_a_target_more_is_named() -> None:
    new = with_step(reusing(flow("a", "x", b="a").run()), "b", depends_on=after("a x"))
    assert reasons(new) == {"b": "it is made of something else: its target x"}


def test_results_without_fingerprints_say_so() -> None:
    first = flow("a").run().with_condition("a", fingerprint="")
    assert reasons(reusing(first))["a"].startswith("f has no fingerprint of it: an earlier version")


def test_lines_say_what_is_reused_and_what_runs() -> None:
    preview = previewed(rated(reusing(chain().run()), "0.1"))
    assert [*preview.lines()] == [
        "Reused from f: a",
        "Runs:",
        "  b: args[1] differs: 0.01 → 0.1",
        "  c: its target b runs again",
    ]
    assert [*previewed(reusing(chain().run())).lines()] == [
        "Reused from f: a, b, c",
        "Nothing runs.",
    ]


def test_a_claim_that_moves_spends_the_flow() -> None:
    claims = {"data": {"accessModes": ["ReadWriteOnce"]}}
    first = flow("a").with_spec(volume_claims=claims)
    *_, last = previewed(reusing(first.run())).lines()
    assert last == (
        "The volume claim data of f moves to the new flow: f is then spent, and can be neither "
        "retried nor reused."
    )


def test_a_flow_that_is_suspended_is_previewed_as_if_it_ran() -> None:
    assert reasons(reusing(chain().run()).with_spec(suspend=True)) == {}


def test_a_flow_that_cannot_be_reused_refuses_the_new_one() -> None:
    running = chain().settled()
    assert "flow f is Pending; wait until it has ended" in previewed(reusing(running)).refusal
