"""`jobflow why` on the sandbox's API server: what it answers, and what it says where it cannot."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from jobflow.api.resources import CRDS, JOBFLOWS, NAMESPACES
from jobflow.cli.flows.find_flow import Stopped
from jobflow.cli.flows.why import Question, _answered
from jobflow.sandbox.apiserver.requests.failures import failure
from jobflow.sandbox.apiserver.requests.http import Request
from jobflow.sandbox.apiserver.server import InjectedFault
from support.sandbox.running_controller import DIAMOND, NAMESPACE, Cluster, flow, template

JOBFLOW = Path(sys.executable).with_name("jobflow")
Asked = Callable[..., Awaitable[str]]


@pytest.fixture
def asked(kubeconfig: Path, capsys: pytest.CaptureFixture[str]) -> Asked:
    """What the command prints, on the test's own loop. Raises Stopped."""

    async def ask(
        flow: str, step: str | None = None, *, namespace: str | None = None, as_json: bool = False
    ) -> str:
        question = Question(flow, step, namespace, str(kubeconfig), as_json=as_json)
        capsys.readouterr()  # a controller's log
        assert await _answered(question) == 0
        return capsys.readouterr().out

    return ask


async def stuck(world: Cluster) -> None:
    """A flow whose first step waits for its template."""
    async with world.controller():
        await world.apply(*(template(name) for name in "bcde"), flow("test", DIAMOND))
        await world.until("test", lambda seen: bool(seen.status.state.reason))


async def test_the_installed_command_answers_in_one_paragraph(
    world: Cluster, kubeconfig: Path
) -> None:
    await stuck(world)
    process = await asyncio.create_subprocess_exec(
        *(JOBFLOW, "why", "test", "e", "--kubeconfig", str(kubeconfig)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(30):
        out, err = await process.communicate()
    assert (process.returncode, err) == (0, b"")
    [paragraph] = out.decode().splitlines()
    assert paragraph.startswith("Step e has waited for ")
    assert " d waits for b and b for a. Step a has been Waiting for " in paragraph
    assert paragraph.endswith("Apply the JobTemplate a, and the step starts by itself.")


async def test_json_has_the_same_in_parts(world: Cluster, asked: Asked) -> None:
    await stuck(world)
    answer = json.loads(await asked("test", as_json=True))
    since = (await world.flow("test")).status.start_time
    assert since is not None
    text = " ".join(answer.pop("sentences"))
    assert text.startswith("JobFlow test is Pending and under way for ")
    assert answer == {
        "namespace": NAMESPACE,
        "flow": "test",
        "step": None,
        "phase": "Pending",
        "reason": "WaitingForTemplate",
        "since": since.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "causes": ["a"],
    }
    of_step = json.loads(await asked("test", "e", as_json=True))
    assert (of_step["step"], of_step["phase"], of_step["causes"]) == ("e", "Waiting", ["a"])


async def test_a_flow_of_another_namespace(world: Cluster, asked: Asked) -> None:
    elsewhere = flow("test", {"a": ""})
    elsewhere["metadata"]["namespace"] = "team"
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}
    await world.client.create(NAMESPACES, "", json.dumps(namespace).encode())
    await world.client.create(JOBFLOWS, "team", json.dumps(elsewhere).encode())
    assert "JobFlow test was made" in await asked("test", namespace="team")


async def test_a_paragraph_cannot_move_the_cursor(world: Cluster, asked: Asked) -> None:
    await stuck(world)
    status = {"status": {"conditions": {"test-a": {"phase": "Waiting", "message": "\x1b[2Jx\ny"}}}}
    body = json.dumps(status).encode()
    await world.client.patch(JOBFLOWS, NAMESPACE, "test", body, subresource="status")
    said = await asked("test", "a")
    assert "\x1b" not in said and said.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("tset",), 'no JobFlow "tset" in the namespace "default"; did you mean "test"?'),
        (("other",), 'no JobFlow "other" in the namespace "default"'),
        (("test/status",), 'no JobFlow "test/status" in the namespace "default"'),
        (("test", "prepar"), 'JobFlow test has no step "prepar"; did you mean "prepare"?'),
        (("test", "x"), 'JobFlow test has no step "x"'),
        (("test", ""), 'JobFlow test has no step ""'),
    ],
)
async def test_what_is_not_there_is_guessed_at(
    world: Cluster, asked: Asked, words: tuple[str, ...], sentence: str
) -> None:
    await world.apply(flow("test", {"prepare": ""}))
    with pytest.raises(Stopped) as stopped:
        await asked(*words)
    assert stopped.value.code == 2
    assert str(stopped.value).endswith(sentence)


def forbids(world: Cluster, path: str) -> None:
    def strikes(request: Request) -> bool:
        return request.path.endswith(path)

    world.server.faults.append(
        InjectedFault(strikes, failure(403, "Forbidden", "alice must not"), times=9)
    )


async def test_whoever_may_not_list_gets_no_guess(world: Cluster, asked: Asked) -> None:
    await world.apply(flow("test", {"prepare": ""}))
    forbids(world, "/jobflows")
    with pytest.raises(Stopped, match=r'no JobFlow "tset" in the namespace "default"$'):
        await asked("tset")


async def test_whoever_may_not_read_is_told(world: Cluster, asked: Asked) -> None:
    await world.apply(flow("test", {"prepare": ""}))
    forbids(world, "/jobflows/test")
    with pytest.raises(Stopped, match="alice must not") as stopped:
        await asked("test")
    assert stopped.value.code == 1


async def test_a_cluster_without_jobflow(world: Cluster, asked: Asked) -> None:
    await world.client.delete(CRDS, "", "jobflows.flow.volcano.sh")
    with pytest.raises(Stopped, match="serves no JobFlows: see `jobflow crds`") as stopped:
        await asked("test")
    assert stopped.value.code == 2
