"""Completion in shells, and the same program as a plugin of kubectl."""

import asyncio
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobflow.api.labels import CREATED_BY_FLOW, STEP
from jobflow.api.resources import PODS
from jobflow.api.volcano.pod import TASK
from support.sandbox.command_line import jobflow
from support.sandbox.flow_commands import JOBFLOW
from support.sandbox.running_controller import Cluster, cron, flow
from support.sandbox.sandboxed import Served, served
from support.sandbox.states import apply_samples, apply_states


@pytest.mark.parametrize(
    ("shell", "line"),
    [
        ("bash", "complete -o default -F _jobflow_completion jobflow"),
        ("zsh", "#compdef jobflow"),
        ("fish", "complete --command jobflow "),
    ],
)
def test_the_script_of_each_shell_is_printed(shell: str, line: str) -> None:
    answer = jobflow("completion", shell)
    assert (answer.code, answer.err) == (0, "")
    assert any(each.startswith(line) for each in answer.out.splitlines())


def test_the_script_is_one_that_bash_can_load() -> None:
    script = jobflow("completion", "bash").out
    command = f"{script}\ncomplete -p jobflow"
    process = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert process.stdout == "complete -o default -F _jobflow_completion jobflow\n"


async def complete(kubeconfig: Path, line: str) -> list[str]:
    """Return the words that the script of bash gets for the end of a line."""
    environment = os.environ | {
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(line.split(" ")) - 1),
        "_JOBFLOW_COMPLETE": "complete_bash",
        "KUBECONFIG": str(kubeconfig),
    }
    process = await asyncio.create_subprocess_exec(
        JOBFLOW, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env=environment
    )
    out, err = await process.communicate()
    assert err == b""
    return out.decode().split()


@pytest.mark.sampled(9)
@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("jobflow tim", ["timeline"]),
        ("jobflow get ", ["nightly", "train"]),
        ("jobflow cancel jf/t", ["jf/train"]),
        ("jobflow suspend train ", ["nightly"]),
        ("jobflow why train ", ["prepare", "fit"]),
        ("jobflow why none ", []),
        ("jobflow trigger ", ["hourly"]),
        ("jobflow backfill cjf/h", ["cjf/hourly"]),
        ("jobflow get --context none ", []),
    ],
)
async def test_commands_flows_and_steps_are_completed(
    world: Cluster, kubeconfig: Path, line: str, words: list[str]
) -> None:
    await world.apply(flow("train", {"prepare": "", "fit": "prepare"}), flow("nightly", {"a": ""}))
    await world.apply(cron("hourly"))
    assert await complete(kubeconfig, line) == words


@pytest.mark.sampled(7)
@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("get ", "asking done failed paused running"),
        ("cancel ", "asking paused running"),
        ("cancel --step b ", "asking paused running"),
        ("suspend ", "asking running"),
        ("resume ", "paused"),
        ("retry ", "failed"),
        ("retry --step b ", "asking done failed paused running"),
        ("wait ", "asking paused running"),
        ("wait running ", "asking paused"),
        ("delete ", "done failed"),
        ("delete --cancel ", "asking done failed paused running"),
        ("delete jf/d", "jf/done"),
        ("approve ", "asking"),
        ("reject ", "asking"),
        ("skip ", "asking failed paused running"),
        ("scale ", "asking paused running"),
        ("resubmit --reuse ", "done failed"),
        ("submit flow.yaml --reuse ", "done failed"),
    ],
)
async def test_only_flows_on_which_a_command_can_act_are_completed(
    world: Cluster, kubeconfig: Path, line: str, words: str
) -> None:
    await apply_states(world)
    assert await complete(kubeconfig, f"jobflow {line}") == words.split()


@pytest.mark.sampled(7)
@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("approve asking ", "ask"),
        ("logs failed ", "ask b"),
        ("logs failed b/", "b/0 b/1"),
        ("get failed --step ", "ask b"),
        ("cancel running --step a", "ask"),
        ("retry failed --step b/", "b/0 b/1"),
        ("resubmit failed --rerun ", "ask b"),
        ("submit flow.yaml --reuse failed --rerun ", "ask b"),
        ("suspend cjf/", "cjf/hourly"),
        ("resume cjf/", "cjf/nightly"),
        ("delete cjf/n", "cjf/nightly"),
        ("cancel cjf/", ""),
        ("get --namespace ", "default kube-system team"),
        ("get -n te", "team"),
        ("logs failed --task ", "main worker"),
        ("logs failed ask --task ", "main"),
        ("logs none --task ", ""),
        ("skip samples ", "site sites"),
        ("cancel samples --step si", "site sites"),
        ("retry samples --step site/", "site/fetch site/fit"),
        ("skip samples sites/", "sites/0 sites/1"),
        ("scale samples sites/1", "sites/1"),
        ("scale samples sites/1/f", "sites/1/fetch sites/1/fit"),
        ("outputs samples sites/1/fi", "sites/1/fit"),
        ("get samples --step sites/2/", ""),
        ("resubmit samples --rerun site/", ""),
    ],
)
async def test_steps_schedules_namespaces_and_tasks_are_completed(
    world: Cluster, kubeconfig: Path, line: str, words: str
) -> None:
    await apply_states(world)
    await apply_samples(world)
    for step, task in (("ask", "main"), ("b", "worker")):
        labels = {CREATED_BY_FLOW: "default.failed", STEP: step, TASK: task}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": task, "labels": labels}}
        await world.client.create(PODS, "default", json.dumps(pod).encode())
    assert await complete(kubeconfig, f"jobflow {line}") == words.split()


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path) as world:
        yield world


@pytest.mark.long
@pytest.mark.kubectl
@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
def test_kubectl_runs_the_plugin(sandbox: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(JOBFLOW.parent), prepend=os.pathsep)
    answer = plugin(sandbox, "get")
    assert (answer.returncode, answer.stderr) == (0, 'no JobFlow in namespace "default"\n')
    assert plugin(sandbox, "why", "-h").stdout.startswith("Usage: kubectl jobflow why ")


def plugin(sandbox: Served, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `kubectl jobflow`; kubectl takes no flags before the name of a plugin."""
    environment = sandbox.kubectl.environment
    command = ["kubectl", "jobflow", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
