"""Completion in real shells: bash and zsh on a terminal, fish by its own command."""

import asyncio
import os
import shutil
import sys
from pathlib import Path

import pytest

from support.sandbox.flow_commands import JOBFLOW
from support.sandbox.running_controller import Cluster
from support.sandbox.states import apply_samples, apply_states

SPAWN = "import pty, sys; pty.spawn(sys.argv[1:])"
SHELLS = {
    "bash": ("bash", "--norc", "--noprofile", "-i"),
    "zsh": ("zsh", "-f", "-i"),
    "fish": ("fish", "--no-config", "-c"),
}
LOAD = {
    "bash": "source <(jobflow completion bash)",
    "zsh": "autoload -Uz compinit; compinit -D -u; source <(jobflow completion zsh)",
    "fish": "jobflow completion fish | source",
}


async def complete(shell: str, line: str, environment: dict[str, str]) -> str:
    """Return all that a shell prints when a user types the line and presses Tab twice."""
    if shell == "fish":
        command = (*SHELLS[shell], f'{LOAD[shell]}; complete -C "{line}"')
    else:
        command = (sys.executable, "-c", SPAWN, *SHELLS[shell])
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env=environment,
    )
    assert process.stdin is not None and process.stdout is not None
    if shell == "fish":
        return (await process.communicate())[0].decode()
    try:
        async with asyncio.timeout(60):
            # typed text is echoed, so the quotes tell the echo from the answer; a shell reads keys
            # only after its prompt
            process.stdin.write(f"{LOAD[shell]}; PS1=REA''DY\n".encode())
            await process.stdout.readuntil(b"READY")
            # Ctrl-U removes the line
            process.stdin.write(f"{line}\t\t\x15echo DO''NE\n".encode())
            return (await process.stdout.readuntil(b"DONE\r\n")).decode()
    finally:
        process.kill()
        await process.wait()


@pytest.mark.long
@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("line", "words", "others"),
    [
        ("tim", "timeline", "trigger"),
        ("suspend ", "asking running", "paused failed done"),
        ("resume cjf/", "cjf/nightly", "hourly"),
        ("logs failed b/", "b/0 b/1", "b/2"),
        ("skip failed ", "ask", ""),
        ("get -n te", "team", "default"),
        ("get --namespace=te", "team", "default"),
        ("submit flow.yaml --reuse=d", "done", "failed"),
        ("skip samples sites/1/f", "sites/1/fetch sites/1/fit", "sites/0"),
        ("retry samples --step=sites/", "sites/0 sites/1", "sites/2"),
        ("resubmit failed --param a=1 --rerun=", "ask", "done"),
    ],
)
async def test_a_shell_completes_the_line(
    world: Cluster, kubeconfig: Path, shell: str, line: str, words: str, others: str
) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not on PATH")
    await apply_states(world)
    await apply_samples(world)
    path = f"{JOBFLOW.parent}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {"KUBECONFIG": str(kubeconfig), "PATH": path, "TERM": "dumb"}
    printed = await complete(shell, f"jobflow {line}", environment)
    assert [word for word in words.split() if word not in printed] == []
    assert [word for word in others.split() if word in printed] == []
