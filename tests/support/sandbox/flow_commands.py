"""Commands about one flow of the sandbox's API server, as a user calls them."""

from __future__ import annotations

import asyncio
import sys
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from jobflow.kube.client import Client
from support.sandbox.command_line import Said, jobflow
from support.sandbox.running_controller import Cluster, flow, template
from support.sandbox.volcano_world import volcano

JOBFLOW = Path(sys.executable).with_name("jobflow")


async def asked(kubeconfig: Path, *arguments: str) -> Said:
    """What a command says, and its exit code: in a thread, for it runs a loop of its own."""
    return await asyncio.to_thread(jobflow, *arguments, "--kubeconfig", str(kubeconfig))


async def waited_for(kubeconfig: Path, *arguments: str) -> Said:
    """The same with `--wait`: a process, for it listens to signals."""
    process = await asyncio.create_subprocess_exec(
        JOBFLOW,
        *(*arguments, "--wait", "--kubeconfig", str(kubeconfig)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(30):
        out, err = await process.communicate()
    assert process.returncode is not None
    return Said(process.returncode, out.decode(), err.decode())


def stand_in(world: Cluster) -> AbstractAsyncContextManager[None]:
    """Somebody who carries vcjobs, and Commands on them, out."""
    return volcano(Client.at(world.server.url))


def slow(name: str) -> dict[str, Any]:
    """A template whose jobs run for an hour."""
    made = template(name)
    made["metadata"]["annotations"] = {"sandbox.jobflow.volcano.sh/duration": "1h"}
    return made


async def long_flow(world: Cluster, name: str = "f", **spec: Any) -> None:
    """b waits for a, which runs for an hour."""
    await world.apply(slow("a"), template("b"), flow(name, {"a": "", "b": "a"}, **spec))
