"""`jobflow submit` with `--wait`, `--watch` and `--log`, until the flow has ended."""

import asyncio
import signal
from pathlib import Path

import pytest

from jobflow.api.resources import JOBFLOWS
from jobflow.cli.steer import send_command, until_end
from support.sandbox.flow_commands import (
    JOBFLOW,
    forbid,
    run_process,
    set_status,
    volcano_on,
)
from support.sandbox.manifests import jobflow, template
from support.sandbox.running_controller import NAMESPACE, Cluster
from support.sandbox.submitted import CREATED, STEPS, train, write_flow


@pytest.mark.long
@pytest.mark.parametrize(
    ("exit_code", "code", "end"),
    [(0, 0, "Succeed, 2/2 steps finished"), (3, 1, "Failed, 2/2 steps finished (StepFailed)")],
)
async def test_wait_ends_with_the_flow(
    world: Cluster, kubeconfig: Path, tmp_path: Path, exit_code: int, code: int, end: str
) -> None:
    objects = [template("a"), template("b", exit_code=str(exit_code)), jobflow("train", STEPS)]
    async with volcano_on(world), world.controller():
        result = await run_process(kubeconfig, "submit", write_flow(tmp_path, *objects), "--wait")
    assert (result.code, result.err) == (code, "")
    assert result.out.startswith(CREATED)
    assert result.out.splitlines()[-1].startswith(f"JobFlow train: {end}")


@pytest.mark.long
async def test_wait_with_json_prints_the_finished_flow(
    world: Cluster, kubeconfig: Path, tmp_path: Path
) -> None:
    file = write_flow(tmp_path, *train())
    async with volcano_on(world), world.controller():
        result = await run_process(kubeconfig, "submit", file, "--wait", "-o", "json")
    assert (result.code, result.err) == (0, "")
    assert (result.json["kind"], result.json["status"]["state"]["phase"]) == ("JobFlow", "Succeed")


@pytest.mark.long
async def test_watch_prints_each_change_in_a_pipe(
    world: Cluster, kubeconfig: Path, tmp_path: Path
) -> None:
    async with volcano_on(world), world.controller():
        result = await run_process(kubeconfig, "submit", write_flow(tmp_path, *train()), "--watch")
    assert (result.code, result.err) == (0, "")
    assert result.out.splitlines()[-1].endswith("  train  Succeed")
    assert any(line.endswith("  train/a  Completed") for line in result.out.splitlines())


@pytest.mark.long
async def test_log_prints_the_logs_and_ends_with_the_flow(
    world: Cluster, kubeconfig: Path, tmp_path: Path
) -> None:
    async with volcano_on(world), world.controller():
        result = await run_process(kubeconfig, "submit", write_flow(tmp_path, *train()), "--log")
    assert result.code == 0, result
    lines = result.out.removeprefix(CREATED).splitlines()
    assert lines[-1] == "JobFlow train: Succeed, 2/2 steps finished"
    read = [each.path for each in world.server.requests if each.path.endswith("/log")]
    assert {path.split("/")[-2] for path in read} == {"train-a-main-0", "train-b-main-0"}


@pytest.mark.long
async def test_a_flow_is_waited_for_without_the_right_to_its_logs(
    world: Cluster, kubeconfig: Path, tmp_path: Path
) -> None:
    forbid(world, "GET", f"/namespaces/{NAMESPACE}/pods")
    async with volcano_on(world), world.controller():
        result = await run_process(kubeconfig, "submit", write_flow(tmp_path, *train()), "--log")
    end = "JobFlow train: Succeed, 2/2 steps finished\n"
    assert (result.code, result.out) == (0, CREATED + end)
    assert result.err.startswith("jobflow: warning: logs need the rights to list pods and get ")


@pytest.mark.long
async def test_a_flow_that_is_deleted_while_it_runs_is_an_error(
    world: Cluster, kubeconfig: Path, tmp_path: Path
) -> None:
    running = asyncio.create_task(
        run_process(kubeconfig, "submit", write_flow(tmp_path, *train()), "--wait")
    )
    await world.until("train", bool)
    await world.client.delete(JOBFLOWS, NAMESPACE, "train")
    result = await running
    assert (result.code, result.out) == (1, CREATED)
    assert result.err == "jobflow: error: JobFlow train was deleted before it ended\n"


async def test_a_missing_controller_gets_a_warning(
    world: Cluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(send_command, "PATIENCE_SECONDS", 0.0)
    await world.apply(jobflow("train", STEPS))
    flows = [await world.flow("train")]
    waiting = asyncio.create_task(until_end.until_end(world.client, flows, until_end.View.PROGRESS))
    async with asyncio.timeout(10):
        while "is `jobflow serve` running?" not in capsys.readouterr().err:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    await set_status(world, {"state": {"phase": "Succeed"}}, "train")
    assert (await waiting).code == 0


@pytest.mark.long
async def test_an_interruption_leaves_the_flow_running(
    world: Cluster, kubeconfig: Path, tmp_path: Path
) -> None:
    process = await asyncio.create_subprocess_exec(
        *(JOBFLOW, "submit", write_flow(tmp_path, *train()), "--wait"),
        *("--kubeconfig", str(kubeconfig)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(20):  # only the wait requests one flow by its name
        while not any("fieldSelector" in request.query for request in world.server.requests):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, err = await process.communicate()
    assert process.returncode == 130
    sentence = "JobFlow train goes on: `jobflow get train -w` shows it, `jobflow cancel train`"
    assert err.decode() == f"jobflow: info: {sentence} cancels it\n"
    assert (await world.flow("train")).metadata.deletion_timestamp is None
