"""`jobflow cancel` on the sandbox's API server: what it makes, what it says, how it ends."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path

import pytest

from jobflow.api.command import Command as JobCommand
from jobflow.api.resources import COMMANDS, CRDS, JOBFLOWS
from jobflow.cli.flows import wait as following
from jobflow.cli.flows.cancel import CANCEL
from jobflow.cli.flows.find_flow import Stopped
from jobflow.cli.flows.send_command import Order
from jobflow.cli.flows.send_command import asked as cancel
from jobflow.sandbox.apiserver.requests.failures import failure
from jobflow.sandbox.apiserver.requests.http import Request
from jobflow.sandbox.apiserver.server import InjectedFault
from support.sandbox.command_line import Said
from support.sandbox.flow_commands import JOBFLOW, asked, long_flow, stand_in, waited_for
from support.sandbox.running_controller import NAMESPACE, Cluster, flow, template


async def cancelled(kubeconfig: Path, *arguments: str) -> Said:
    return await asked(kubeconfig, "cancel", *arguments)


async def test_it_makes_the_command_as_vcctl_does(world: Cluster, kubeconfig: Path) -> None:
    await world.apply(flow("f", {"a": ""}))
    uid = (await world.flow("f")).metadata.uid
    said = await cancelled(kubeconfig, "f")
    [made] = await world.raw(COMMANDS)
    target = {
        "apiVersion": JOBFLOWS.api_version, "kind": "JobFlow", "name": "f", "uid": uid
    }  # fmt: skip
    assert (made["action"], made["target"]) == ("TerminateJob", target)
    assert made["metadata"]["ownerReferences"] == [target]
    assert made["metadata"]["generateName"] == "f-terminatejob-"
    name = made["metadata"]["name"]
    assert said == Said(0, f"JobFlow f: asked to cancel (Command {name})\n", "")


async def test_waiting_tells_how_it_goes(world: Cluster, kubeconfig: Path) -> None:
    async with stand_in(world), world.controller():
        await long_flow(world)
        await world.until_jobs(f_a="Running")
        said = await waited_for(kubeconfig, "cancel", "f")
    lines = said.out.splitlines()
    assert (said.code, said.err) == (0, "")
    assert lines[0].startswith("JobFlow f: asked to cancel (Command f-terminatejob-")
    assert lines[-1] == "JobFlow f: Failed, 2/2 steps over (Cancelled): the flow was cancelled"


async def test_json_is_one_object(world: Cluster, kubeconfig: Path) -> None:
    async with stand_in(world), world.controller():
        await long_flow(world)
        await world.until_jobs(f_a="Running")
        answer = (await waited_for(kubeconfig, "cancel", "f", "-o", "json")).json
    assert answer.pop("command").startswith("f-terminatejob-")
    assert answer == {
        "namespace": NAMESPACE,
        "name": "f",
        "phase": "Failed",
        "reason": "Cancelled",
        "message": "the flow was cancelled",
        "progress": "2/2",
    }


async def test_a_flow_that_is_over_is_not_cancelled(world: Cluster, kubeconfig: Path) -> None:
    async with world.ends(), world.controller():
        await world.apply(template("a"), flow("f", {"a": ""}))
        await world.ended("f")
    said = await cancelled(kubeconfig, "f")
    assert (said.code, said.out) == (1, "")
    assert said.err == "jobflow cancel: JobFlow f is over already: Succeed, 1/1 steps over\n"
    assert await world.raw(COMMANDS) == []


ALREADY = "is already being cancelled and is over once its jobs have ended"


async def test_a_flow_that_is_being_cancelled_is_ended_now_or_not_at_all(
    world: Cluster, kubeconfig: Path
) -> None:
    last = {"finally": [{"name": "z", "template": "a"}]}
    async with stand_in(world), world.controller():
        await long_flow(world, **last)
        await world.until_jobs(f_a="Running")
        assert (await cancelled(kubeconfig, "f")).code == 0
        await world.until_jobs(f_z="Running")
        made = len(await world.raw(COMMANDS))
        said = await cancelled(kubeconfig, "f", "--wait")
        now = "and its finally has run; `jobflow cancel --now f` ends finally too"
        assert said == Said(1, "", f"jobflow cancel: JobFlow f {ALREADY} {now}\n")
        assert len(await world.raw(COMMANDS)) == made
        said = await waited_for(kubeconfig, "cancel", "f", "--now")
        assert (said.code, said.err) == (0, "")
        assert said.out.startswith("JobFlow f: asked to cancel (Command f-terminatenow-")
        done = await world.flow("f")
    assert (done.status.state.phase, done.status.state.reason) == ("Failed", "Cancelled")
    assert {each.phase for each in (done.status.conditions or {}).values()} == {"Failed", "Skipped"}


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("f", "--now"), f"{ALREADY}, and its finally is being cancelled too"),
        (("f",), f"{ALREADY}, and its finally is being cancelled too"),
        (("g", "--now"), f"{ALREADY}, and it has no finally"),
        (("g",), f"{ALREADY}, and it has no finally"),
        (("t",), "is already being ended (Timeout) and is over once its jobs have ended and its "
         "finally has run; `jobflow cancel --now t` ends finally too"),
    ],
)  # fmt: skip
async def test_nothing_is_not_asked_for(
    world: Cluster, kubeconfig: Path, arguments: tuple[str, ...], why: str
) -> None:
    last = {"finally": [{"name": "z", "template": "a"}]}
    await world.apply(flow("f", {"a": ""}, **last), flow("g", {"a": ""}))
    await world.apply(flow("t", {"a": ""}, **last))
    for name, reason, now in (("f", "Cancelled", True), ("g", "Cancelled", False),
                              ("t", "Timeout", False)):  # fmt: skip
        status = {"state": {"phase": "Running", "reason": reason}, "finallyCancelled": now}
        body = json.dumps({"status": status}).encode()
        await world.client.patch(JOBFLOWS, NAMESPACE, name, body, subresource="status")
    said = await cancelled(kubeconfig, *arguments)
    assert said == Said(1, "", f"jobflow cancel: JobFlow {arguments[0]} {why}\n")
    assert await world.raw(COMMANDS) == []


async def test_a_flow_that_is_being_deleted_is_not_cancelled(
    world: Cluster, kubeconfig: Path
) -> None:
    held = flow("f", {"a": ""})
    held["metadata"]["finalizers"] = ["example.com/hold"]
    await world.apply(held)
    await world.client.delete(JOBFLOWS, NAMESPACE, "f")
    said = await cancelled(kubeconfig, "f")
    assert (said.code, said.err) == (1, "jobflow cancel: JobFlow f is being deleted\n")


@pytest.mark.parametrize(
    ("arguments", "missing"),
    [
        (("g",), 'no JobFlow "g" in the namespace "default"'),
        (("f", "-n", "elsewhere"), 'no JobFlow "f" in the namespace "elsewhere"'),
        (("f/status",), 'no JobFlow "f/status" in the namespace "default"'),
        (("",), 'no JobFlow "" in the namespace "default"'),
    ],
)
async def test_a_flow_that_is_not_there(
    world: Cluster, kubeconfig: Path, arguments: tuple[str, ...], missing: str
) -> None:
    await world.apply(flow("f", {"a": ""}))
    said = await cancelled(kubeconfig, *arguments)
    assert (said.code, said.out, said.err) == (2, "", f"jobflow cancel: there is {missing}\n")


async def test_no_cluster(tmp_path: Path) -> None:
    said = await cancelled(tmp_path / "none", "f")
    assert said.code == 2
    assert "none" in said.err and "Traceback" not in said.err


def _replace(path: Path, old: str, new: str) -> None:
    path.write_text(path.read_text().replace(old, new))


async def test_a_cluster_that_does_not_answer(world: Cluster, kubeconfig: Path) -> None:
    _replace(kubeconfig, world.server.url, "http://127.0.0.1:1")
    said = await cancelled(kubeconfig, "f")
    assert said.code == 2
    assert said.err.startswith("jobflow cancel: the API server does not answer: ")


async def test_a_cluster_without_volcano(world: Cluster, kubeconfig: Path) -> None:
    await world.apply(flow("f", {"a": ""}))
    await world.client.delete(CRDS, "", "commands.bus.volcano.sh")
    said = await cancelled(kubeconfig, "f")
    assert said.code == 1
    assert "serves no Commands (bus.volcano.sh/v1alpha1), which Volcano brings" in said.err


async def test_a_cluster_without_jobflow(world: Cluster, kubeconfig: Path) -> None:
    await world.client.delete(CRDS, "", "jobflows.flow.volcano.sh")
    said = await cancelled(kubeconfig, "f")
    assert (said.code, said.err) == (
        2,
        "jobflow cancel: this cluster serves no JobFlows: see `jobflow crds`\n",
    )


def forbids(world: Cluster, method: str, plural: str, message: str) -> None:
    def strikes(request: Request) -> bool:
        return request.method == method and f"/{plural}" in request.path

    world.server.faults.append(InjectedFault(strikes, failure(403, "Forbidden", message), times=9))


@pytest.mark.parametrize(
    ("method", "plural", "sentence"),
    [
        (
            "POST",
            "commands",
            "cancelling takes the right to create commands.bus.volcano.sh in the namespace "
            '"default": alice must not',
        ),
        ("GET", "jobflows", "alice must not"),
    ],
)
async def test_whoever_may_not_is_told_what_it_takes(
    world: Cluster, kubeconfig: Path, method: str, plural: str, sentence: str
) -> None:
    await world.apply(flow("f", {"a": ""}))
    forbids(world, method, plural, "alice must not")
    said = await cancelled(kubeconfig, "f")
    assert (said.code, said.out, said.err) == (1, "", f"jobflow cancel: {sentence}\n")


# ------------------------------------------------------------------------- while it waits


async def waited(kubeconfig: Path) -> int:
    """As the command does, on the test's own loop."""
    return await cancel(CANCEL, Order("f", None, str(kubeconfig), wait=True, as_json=False))


async def test_that_nobody_takes_it_up_is_said(
    world: Cluster,
    kubeconfig: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(following, "PATIENCE_SECONDS", 0.0)
    await world.apply(flow("f", {"a": ""}))
    waiting = asyncio.create_task(waited(kubeconfig))
    await world.seen(COMMANDS, JobCommand, bool)
    async with asyncio.timeout(10):
        while "does `jobflow serve` run?" not in capsys.readouterr().err:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    async with world.controller():
        assert await waiting == 0


async def test_whoever_may_not_watch_is_told(world: Cluster, kubeconfig: Path) -> None:
    await world.apply(flow("f", {"a": ""}))

    def strikes(request: Request) -> bool:
        return request.path.endswith("/jobflows")

    world.server.faults.append(InjectedFault(strikes, failure(403, "Forbidden", "no"), times=None))
    with pytest.raises(Stopped, match="takes the rights to list and watch JobFlows"):
        await waited(kubeconfig)


async def test_an_interrupted_wait(world: Cluster, kubeconfig: Path) -> None:
    await world.apply(flow("f", {"a": ""}))
    process = await asyncio.create_subprocess_exec(
        *(JOBFLOW, "cancel", "f", "--wait", "--kubeconfig", str(kubeconfig)),
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    await process.stdout.readline()
    await world.seen(COMMANDS, JobCommand, bool)
    async with asyncio.timeout(20):  # of the CLI alone are requests for one flow by its name
        while not any("fieldSelector" in seen.query for seen in world.server.requests):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        process.send_signal(signal.SIGINT)
        assert await process.wait() == 130


async def test_a_flow_that_is_deleted_meanwhile(world: Cluster, kubeconfig: Path) -> None:
    await world.apply(flow("f", {"a": ""}))
    waiting = asyncio.create_task(waited(kubeconfig))
    await world.seen(COMMANDS, JobCommand, bool)
    await world.client.delete(JOBFLOWS, NAMESPACE, "f")
    with pytest.raises(Stopped, match="f was deleted meanwhile") as stopped:
        await waiting
    assert stopped.value.code == 1


async def test_a_flow_that_was_quicker(world: Cluster, kubeconfig: Path) -> None:
    await world.apply(flow("f", {"a": ""}))
    waiting = asyncio.create_task(waited(kubeconfig))
    await world.seen(COMMANDS, JobCommand, bool)
    status = {"status": {"state": {"phase": "Succeed"}}}
    body = json.dumps(status).encode()
    await world.client.patch(JOBFLOWS, NAMESPACE, "f", body, subresource="status")
    with pytest.raises(Stopped, match="JobFlow f was over before that: Succeed"):
        await waiting
