"""Flows on a cluster that Python reads and steers by a handle."""

import asyncio
import re
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from jobflow.api.resources import COMMANDS, JOBFLOWS
from jobflow.authoring import ClusterError, Flow, Run, flows, get, handle
from support.paths import ROOT
from support.sandbox.flow_commands import FAILED, RUNNING, SUCCEED, SUSPENDED, set_status
from support.sandbox.logged_pods import LoggedPods, running_flow
from support.sandbox.running_controller import Cluster, flow, template

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")  # TLS that closes slowly


@pytest.fixture
def pods() -> LoggedPods:
    return LoggedPods()


@pytest.fixture
async def world(pods: LoggedPods) -> AsyncIterator[Cluster]:
    async with running_flow(pods) as world:
        yield world


@pytest.fixture
def target(world: Cluster, tmp_path: Path) -> dict[str, Any]:
    path = tmp_path / "kubeconfig"
    world.server.write_kubeconfig(path)
    return {"kubeconfig": str(path)}


async def run_of(target: dict[str, Any], name: str = "f") -> Run:
    """Return the handle; functions of authoring run in a thread, because the test has a loop."""
    return await asyncio.to_thread(lambda: get(name, **target))


async def refusal(method: Any, *arguments: Any, **options: Any) -> str:
    with pytest.raises(ClusterError) as caught:
        await asyncio.to_thread(partial(method, *arguments, **options))
    return str(caught.value)


async def test_a_flow_is_found_by_its_name(world: Cluster, target: dict[str, Any]) -> None:
    run = await run_of(target, "jf/f")
    assert (run.name, run.namespace, repr(run)) == (
        "f",
        "default",
        "Run(name='f', namespace='default')",
    )
    assert (await asyncio.to_thread(run.status)).phase == "Running"
    missing = await refusal(get, "other", **target)
    assert missing == 'JobFlow "other" does not exist in namespace "default"'


async def test_flows_are_found_by_their_labels(world: Cluster, target: dict[str, Any]) -> None:
    for name in ("h", "g"):
        labelled = flow(name, {"a": ""})
        labelled["metadata"]["labels"] = {"team": "vision"}
        await world.apply(labelled)
    found = await asyncio.to_thread(lambda: flows("team=vision", **target))
    everywhere = await asyncio.to_thread(lambda: flows(all_namespaces=True, **target))
    assert [run.name for run in found] == ["g", "h"]
    assert [run.name for run in everywhere] == ["f", "g", "h"]
    with pytest.raises(ValueError, match='^selector "team in vision" is not a label selector'):
        flows("team in vision", **target)


async def test_a_later_flow_of_the_name_is_not_meant(
    world: Cluster, target: dict[str, Any]
) -> None:
    run = await run_of(target)
    await world.client.delete(JOBFLOWS, "default", "f", uid=run.uid)
    await world.apply(flow("f", {"a": ""}))
    for method in (run.status, run.wait, run.cancel, run.delete):
        assert 'flow f was deleted; get("f") returns the new one' in await refusal(method)


@pytest.mark.parametrize(
    ("status", "method", "options", "action"),
    [
        (RUNNING, "cancel", {}, "TerminateJob"),
        (RUNNING, "cancel", {"now": True}, "TerminateNow"),
        (RUNNING, "suspend", {}, "SuspendFlow"),
        (RUNNING, "suspend", {"abort": True}, "AbortJob"),
        (SUSPENDED, "resume", {}, "ResumeJob"),
    ],
)
async def test_a_verb_is_a_command(
    world: Cluster,
    target: dict[str, Any],
    status: dict[str, Any],
    method: str,
    options: dict[str, Any],
    action: str,
) -> None:
    await set_status(world, status)
    run = await run_of(target)
    await asyncio.to_thread(lambda: getattr(run, method)(**options))
    [command] = await world.raw(COMMANDS)
    assert (command["action"], command["target"]["uid"]) == (action, run.uid)


@pytest.mark.parametrize("tolerated", [False, True])
async def test_a_retry_has_begun_when_it_returns(
    world: Cluster, target: dict[str, Any], tolerated: bool
) -> None:
    """So that `wait` waits for its end."""
    await world.apply(template("a"), flow("g", {"a": ""}))
    async with world.controller():
        async with world.ends({"g-a": "Failed"}):
            await world.ended("g")
        run = await run_of(target, "g")
        await asyncio.to_thread(partial(run.retry, tolerated=tolerated))
        async with world.ends():
            assert (await run).succeeded


async def test_a_retry_that_no_controller_handles_is_an_error(
    world: Cluster, target: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handle, "_HANDLED_SECONDS", 0.0)
    await set_status(world, FAILED)
    run = await run_of(target)
    assert "no controller has handled the retry yet" in await refusal(run.retry)


async def test_a_verb_without_effect_is_an_error(world: Cluster, target: dict[str, Any]) -> None:
    await set_status(world, SUCCEED)
    run = await run_of(target)
    assert "JobFlow f has already finished: Succeed" in await refusal(run.cancel)
    assert "JobFlow f has succeeded" in await refusal(run.retry)
    assert await world.raw(COMMANDS) == []


async def test_a_step_is_approved_with_outputs_and_rejected(
    world: Cluster, target: dict[str, Any]
) -> None:
    asking = flow("g", {})
    asking["spec"]["flows"] = [{"name": "ok", "approval": {}}]
    await world.apply(asking)
    async with world.controller():
        await world.until("g", lambda flow: flow.status.state.reason == "WaitingForApproval")
    run = await run_of(target, "g")
    with pytest.raises(ValueError, match="a value cannot be stored as JSON"):
        run.approve("ok", outputs={"n": float("nan")})
    assert 'JobFlow g has no step "other"' in await refusal(run.approve, "other")
    outputs = {"n": 7, "text": "7"}
    await asyncio.to_thread(partial(run.approve, "ok", message="it is good", outputs=outputs))
    await asyncio.to_thread(partial(run.reject, "ok", message="too late"))
    approved, rejected = sorted(await world.raw(COMMANDS), key=lambda each: each["action"])
    assert (approved["action"], approved["message"]) == ("ApproveStep", "ok it is good")
    [annotation] = approved["metadata"]["annotations"].values()
    assert annotation == '{"n":7,"text":"7"}'
    assert (rejected["action"], rejected["message"]) == ("RejectStep", "ok too late")


async def test_steps_of_a_running_flow_are_steered_by_hand(
    world: Cluster, target: dict[str, Any]
) -> None:
    swept = flow("g", {"a": ""})
    swept["spec"]["flows"][0]["forEach"] = {"count": 3}
    await world.apply(template("a"), swept)
    async with world.controller():
        await world.until_jobs(g_a_0="", g_a_1="", g_a_2="")
    run = await run_of(target, "g")
    for steer in (
        partial(run.cancel, step="a/1", message="it hangs"),
        partial(run.skip, "a/2", outputs={"n": 7}),
        partial(run.scale, 2),
        partial(run.scale, 1, step="a", message="by day"),
    ):
        await asyncio.to_thread(steer)
    assert 'JobFlow g: the flow has no step "b"' in await refusal(run.cancel, step="b")
    assert "a/0" in await refusal(run.retry, step=["a/0"])
    commands = await world.raw(COMMANDS)
    assert sorted((each["action"], each["message"]) for each in commands) == [
        ("CancelStep", "a/1 it hangs"),
        ("ScaleFlow", "2"),
        ("ScaleFlow", "a=1 by day"),
        ("SkipStep", "a/2"),
    ]
    [outputs] = [each["metadata"]["annotations"] for each in commands if "skip" in str(each)]
    assert [*outputs.values()] == ['{"n":7}']


@pytest.mark.parametrize("method", ["retry", "skip"])
async def test_a_flow_that_has_ended_goes_on_by_hand_when_it_returns(
    world: Cluster, target: dict[str, Any], method: str
) -> None:
    """So that `wait` waits for its end."""
    await world.apply(template("a"), template("b"), flow("g", {"a": "", "b": "a"}))
    async with world.controller():
        async with world.ends({"g-a": "Failed"}):
            await world.ended("g")
        run = await run_of(target, "g")
        await asyncio.to_thread(partial(getattr(run, method), step=["a"]))
        async with world.ends():
            assert (await run).succeeded


async def test_arguments_that_do_not_fit_steps_are_refused(
    world: Cluster, target: dict[str, Any]
) -> None:
    run = await run_of(target)
    with pytest.raises(ValueError, match="now is about the whole flow"):
        run.cancel("a", now=True)
    with pytest.raises(ValueError, match="tolerated is about the whole flow"):
        run.retry("a", tolerated=True)
    with pytest.raises(ValueError, match="message is about steps"):
        run.retry(message="again")
    assert "names no step" in await refusal(run.retry, [])


async def test_a_running_flow_is_deleted_only_if_it_is_cancelled(
    world: Cluster, target: dict[str, Any]
) -> None:
    await world.apply(template("a"), flow("g", {"a": ""}))
    async with world.controller():
        await world.until_jobs(g_a="")
        run = await run_of(target, "g")
        assert "write delete(cancel=True)" in await refusal(run.delete)
        async with world.ends(otherwise="Terminated"):
            await asyncio.to_thread(partial(run.delete, cancel=True))
    assert "g" not in await world.flow_names()


async def test_the_page_reads_all_outputs_of_a_sweep_in_three_lines(
    world: Cluster,
    target: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    page = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    found = re.search(
        r"^```python file=read_sweep.py\n(.*?)^```\n.*?^```text\n(.*?)^```", page, re.M | re.S
    )
    assert found is not None
    script, output = found.groups()
    assert len([line for line in script.splitlines() if line]) == 3
    sweep = flow("sweep", {})
    sweep["spec"]["flows"] = [{"name": "train", "forEach": {"items": [0.1, 0.01, 0]}}]
    await world.apply(sweep)
    runs = [
        {"index": 0, "phase": "Completed", "outputs": {"accuracy": 0.91, "loss": 2.5}},
        {"index": 1, "phase": "Completed", "outputs": {"accuracy": 0.93, "loss": 1.5}},
        {"index": 2, "phase": "Failed", "outputs": {"text": "ZeroDivisionError: division by 0"}},
    ]
    status = {"conditions": {"sweep-train": {"phase": "Completed", "runs": runs}}}
    await set_status(world, status, "sweep")
    monkeypatch.setenv("KUBECONFIG", target["kubeconfig"])
    names: dict[str, Any] = {}
    await asyncio.to_thread(exec, script, names)
    assert "".join(f"{row}\n" for row in names["rows"]) == output


async def test_logs_are_text(world: Cluster, target: dict[str, Any], pods: LoggedPods) -> None:
    await pods.create(world, "f-a-0", "a", text="one\n\x1b[31mtwo\n")
    await pods.create(world, "f-b-0", "b", text="late\n")
    run = await run_of(target)
    assert await asyncio.to_thread(run.logs) == ("a/f-a-0 | one\na/f-a-0 | two\nb/f-b-0 | late\n")
    assert await asyncio.to_thread(partial(run.logs, "a", tail=1)) == "a/f-a-0 | two\n"
    assert 'has no step "d"' in await refusal(run.logs, "d")


async def test_runs_are_awaited_beside_each_other(world: Cluster, target: dict[str, Any]) -> None:
    await world.apply(template("a"), flow("g", {"a": ""}), flow("h", {"a": ""}))
    runs = [await run_of(target, name) for name in "gh"]
    async with world.controller(), world.ends({"h-a": "Failed"}):
        first, second = await asyncio.gather(*runs)
    assert (first.phase, second.phase) == ("Succeed", "Failed")


async def test_a_flow_is_submitted_under_another_name(
    world: Cluster, target: dict[str, Any]
) -> None:
    made = Flow(generate_name="g-")
    made.step("a", image="busybox", command=["true"])
    run = await asyncio.to_thread(lambda: made.submit(name="second", **target))
    assert (run.name, await world.flow_names()) == ("second", ["f", "second"])
