"""Completion in shells, and the same program as a plugin of kubectl."""

import asyncio
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.sandbox.command_line import jobflow
from support.sandbox.flow_commands import JOBFLOW
from support.sandbox.running_controller import Cluster, cron, flow
from support.sandbox.sandboxed import Served, served


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
