"""Flows in Python run on this machine, and on a cluster."""

import asyncio
import json
import logging
from pathlib import Path
from typing import Any

import pytest
import structlog

from jobflow.api.resources import JOBFLOWS
from jobflow.app.sandbox_world import SandboxOptions, SandboxWorld, sandbox_world
from jobflow.authoring import (
    ChildFlow,
    ClusterError,
    CronFlow,
    Flow,
    FlowWarning,
    InvalidFlow,
    RunError,
    Template,
    item,
)
from jobflow.sandbox.nodes.simulate import SimulateRunner

pytestmark = pytest.mark.timeout(120)


def squares(name: str = "squares") -> Flow:
    """Return a flow of two functions."""
    flow = Flow(name, params={"more": 1}, outputs={"total": 'steps["total"].outputs.result'})

    @flow.task(for_each=[1, 2, 3])
    def square(x: int) -> int:
        return x * x

    @flow.task()
    def total(values: list[int], more: int) -> int:
        return sum(values) + more

    total(square(item).items.map(lambda each: each.outputs.result), flow.params.more)
    return flow


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Provide the current folder, in which logs are written."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


LOGIN = {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "login", "key": "token"}}}


def reading_secrets() -> Flow:
    """Return a flow with a function that reads a Secret and a ConfigMap."""
    flow = Flow("reads")

    @flow.task(container={"env": [LOGIN], "envFrom": [{"configMapRef": {"name": "app"}}]})
    def read() -> str:
        import os

        return os.environ["TOKEN"][:2] + os.environ["SIZE"]

    read()
    return flow


def test_secrets_and_config_maps_are_given_to_a_run(folder: Path) -> None:
    secrets = {"login": {"token": b"the-token", "raw": "x"}}
    result = reading_secrets().run(
        secrets=secrets, config_maps={"app": {"SIZE": "4", "raw": b"\xff"}}, show=False
    )
    assert result["read"].result == "th4"


def test_a_secret_that_is_missing_or_wrong_is_named_without_its_value(folder: Path) -> None:
    flow = reading_secrets()
    maps = {"app": {"SIZE": "4"}}
    with pytest.raises(
        RunError, match='secret "login" not found; give it to run\\(\\), as secrets='
    ):
        flow.run(config_maps=maps, show=False)
    number: Any = {"login": {"token": 54321}}
    with pytest.raises(InvalidFlow) as refused:
        flow.run(secrets=number, show=False)
    said = "Secret login: the value of token must be text or bytes, not int"
    assert said in refused.value.faults[0].message
    with pytest.raises(InvalidFlow, match="metadata.name") as refused:
        flow.run(secrets={"Login_": {"token": "54321"}}, show=False)
    assert refused.value.faults[0].place.file == __file__


@pytest.mark.long
def test_functions_run_as_processes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    logging_before = logging.getLogger().handlers, structlog.get_config()
    result = squares().run(runner="process")
    assert (result.phase, result.succeeded, result.ended) == ("Succeed", True, True)
    assert result["total"].result == 15
    assert result.outputs == {"total": 15}
    items = result["square"].items
    assert [(each.value, each.result, each.outputs) for each in items] == [
        (n, n * n, {"result": n * n}) for n in (1, 2, 3)
    ]
    for each in (result, result["total"], items[2]):
        assert each.start is not None and each.end is not None and each.start <= each.end
    assert items[2].duration == items[2].end - items[2].start
    data = json.loads(json.dumps(result.to_dict()))
    assert (data["phase"], data["outputs"]) == ("Succeed", {"total": 15})
    item = {"index": 2, "value": 3, "phase": "Completed", "attempts": 1, "outputs": {"result": 9}}
    assert data["steps"]["square"]["items"][2].items() >= item.items()
    assert data["steps"]["total"] == result["total"].to_dict()
    assert result.logs is not None and result.logs.is_relative_to(".jobflow/logs")
    assert capsys.readouterr().out.count("Completed") >= 4
    assert "squares-total" in str(result.check())
    assert (logging.getLogger().handlers, structlog.get_config()) == logging_before


@pytest.mark.long
async def test_a_flow_runs_beside_an_event_loop(folder: Path) -> None:
    """As in a notebook, whose cells run in one."""
    result = squares().run(runner="process", params={"more": 2}, show=False)
    assert result["total"].result == 16


def test_a_failed_flow_is_a_result(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flow = Flow("f")

    @flow.task()
    def fail() -> None:
        raise ValueError("no luck")

    fail()
    result = flow.run(runner="process")
    assert (result.phase, result["fail"].phase) == ("Failed", "Failed")
    failure = result["fail"].failure
    assert failure is not None and failure.exit_code == 1
    assert failure.message == "ValueError: no luck"
    assert result["fail"].message.endswith(
        ": exit code 1 (Error) on node sandbox: " + failure.message
    )
    assert result.message.endswith(failure.message)
    assert "ValueError: no luck" in capsys.readouterr().out
    with pytest.raises(RunError, match="flow f is Failed: fail: "):
        result.check()
    with pytest.raises(KeyError, match='flow f has no step "fial"; did you mean "fail"'):
        result["fial"]


def test_a_simulation_of_functions_is_a_warning(folder: Path) -> None:
    with pytest.warns(FlowWarning, match="so square and total have no outputs") as warned:
        assert squares().run(runner="simulate", show=False, speed=10).phase == "Failed"
    assert warned[0].filename == __file__


@pytest.mark.parametrize("is_child", [False, True])
def test_functions_run_without_naming_a_runner(folder: Path, is_child: bool) -> None:
    flow = squares()
    if is_child:
        child = ChildFlow(outputs={"total": 'steps["total"].outputs.n'})
        flow = Flow("f", outputs={"total": 'steps["site"].outputs.total'})

        @child.task()
        def total() -> dict[str, int]:
            return {"n": 15}

        total()
        flow.step("site", flow=child)
    assert flow.run(show=False).check().outputs == {"total": 15}


def test_speed_chooses_the_simulation(folder: Path) -> None:
    with pytest.warns(FlowWarning, match=r'write run\(runner="process"\)'):
        assert squares().run(show=False, speed=10).phase == "Failed"


def test_flows_that_cannot_end_here_are_errors(folder: Path) -> None:
    flow = Flow("f")
    flow.step("a", template="missing")
    with pytest.warns(FlowWarning, match='JobTemplate "missing" does not exist') as warned:
        with pytest.raises(RunError, match="waits for the JobTemplate missing"):
            flow.run(show=False)
    assert warned[0].filename == __file__
    with pytest.raises(InvalidFlow, match='the flow has no param "moer"; did you mean "more"'):
        squares().run(params={"moer": 1}, show=False)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"runner": "docker"}, 'runner "docker" is not one of simulate, process'),
        ({"runner": "process", "speed": 2}, "speed needs runner simulate"),
        ({"max_restarts": 2, "runner": "simulate"}, "max_restarts needs runner process"),
    ],
)
def test_wrong_options_are_errors(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        squares().run(**options)


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # TLS connections that close slowly
async def test_a_flow_is_submitted_and_waited_for() -> None:
    async with sandbox_world(SandboxOptions(runner=SimulateRunner(20.0))) as world:
        flow = Flow("f", params={"n": 1})
        container = {"image": "busybox", "command": ["true"]}
        flow.step("a", container=container, env={"N": flow.params.n})
        target = {"kubeconfig": str(world.kubeconfig)}
        submitted = await asyncio.to_thread(lambda: flow.submit(**target, params={"n": 2}))
        assert (submitted.name, submitted.namespace) == ("f", "default")
        assert (await asyncio.to_thread(submitted.status)).name == "f"
        result = await asyncio.to_thread(flow.wait, 60)
        assert (result.phase, result["a"].phase) == ("Succeed", "Completed")
        stored = result.flow.spec.params
        assert stored is not None and stored[0].value == 2
        await refusals_and_ends(world, flow, target)


async def refusals_and_ends(world: SandboxWorld, flow: Flow, target: dict[str, Any]) -> None:
    with pytest.raises(InvalidFlow, match="already exists") as error:
        await asyncio.to_thread(lambda: flow.submit(**target))
    assert error.value.faults[0].place.file == __file__
    waiting = Flow("g")
    waiting.step("a", template=Template("other", {}))
    with pytest.raises(InvalidFlow, match=r"spec.tasks"):
        await asyncio.to_thread(lambda: waiting.submit(**target))
    slow = Flow("h", suspend=True)
    slow.step("a", image="busybox", command=["true"])
    submitted = await asyncio.to_thread(lambda: slow.submit(**target))
    with pytest.raises(TimeoutError, match="flow h has not ended after 0"):
        await asyncio.to_thread(submitted.wait, 0)
    path = JOBFLOWS.path("default", "f")
    await world.client.request("DELETE", path)
    with pytest.raises(ClusterError, match='JobFlow "f" does not exist'):
        await asyncio.to_thread(flow.wait)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::ResourceWarning")
async def test_a_schedule_is_submitted_and_triggered() -> None:
    async with sandbox_world(SandboxOptions(runner=SimulateRunner(20.0))) as world:
        flow = Flow("f", params={"n": 1})
        flow.step("a", image="busybox", command=["true"], env={"N": flow.params.n})
        cron = CronFlow("c", "30 2 * * *", flow)
        target = {"kubeconfig": str(world.kubeconfig)}
        await asyncio.to_thread(lambda: cron.submit(**target))
        made = await asyncio.to_thread(lambda: cron.trigger(params={"n": 2}))
        assert made.name.startswith("c-manual-")
        result = await asyncio.to_thread(made.wait, 60)
        stored = result.flow.spec.params
        assert result.succeeded and stored is not None and stored[0].value == 2
        with pytest.raises(ClusterError, match="JobFlow c has no such param"):
            await asyncio.to_thread(lambda: cron.trigger(params={"m": 2}))
        other = CronFlow("d", "@daily", flow)
        with pytest.raises(ClusterError, match='CronJobFlow "d" does not exist'):
            await asyncio.to_thread(lambda: other.trigger(**target))


def test_one_flow_of_a_schedule_runs(folder: Path) -> None:
    flow = Flow("f", params={"n": 1}, outputs={"n": "params.n"})
    flow.step("a", image="busybox", command=["true"], env={"AT": flow.scheduled_time})
    result = CronFlow("c", "@daily", flow).run(params={"n": 3}, speed=20, show=False)
    assert (result.phase, result.outputs) == ("Succeed", {"n": 3})


def test_a_flow_that_was_not_submitted_has_nothing_to_wait_for() -> None:
    with pytest.raises(ValueError, match="call submit"):
        squares().wait()


def test_no_cluster_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="kubeconfig"):
        squares().submit(kubeconfig=str(tmp_path / "kubeconfig"))
