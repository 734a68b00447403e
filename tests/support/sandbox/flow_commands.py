"""Commands about one flow of the sandbox's API server, as a user runs them."""

import asyncio
import sys
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from jobflow.api.resources import JOBFLOWS
from jobflow.cli.flags import ClusterOptions
from jobflow.cli.steer.send_command import send_and_wait
from jobflow.client.options import Selection
from jobflow.client.verbs.command import Verb
from jobflow.sandbox.apiserver.requests.failures import failure
from jobflow.sandbox.apiserver.requests.in_process import in_process_client
from support.sandbox.api_server import InjectedFault
from support.sandbox.command_line import Result, jobflow
from support.sandbox.running_controller import Cluster, flow, template, write_status
from support.sandbox.volcano_world import volcano

Status = dict[str, Any]
SUSPENDED: Status = {
    "state": {"phase": "Running", "reason": "Suspended", "message": "nothing starts"},
    "suspendedAt": "2026-01-01T12:00:00Z",
}
BUSY = {**SUSPENDED, "conditions": {"f-a": {"phase": "Running"}}}
IDLE = {**SUSPENDED, "conditions": {"f-a": {"phase": "Completed"}, "f-b": {"phase": "Waiting"}}}
RUNNING: Status = {
    "state": {"phase": "Running"},
    "progress": "1/2",
    "startTime": "2026-01-01T12:00:00Z",
}
FAILED: Status = {
    "state": {"phase": "Failed", "reason": "StepFailed", "message": "step a failed"},
    "progress": "2/2",
    "startTime": "2026-01-01T12:00:00Z",
    "completionTime": "2026-01-01T12:01:05Z",
}
SUCCEED = {**FAILED, "state": {"phase": "Succeed", "reason": "", "message": ""}}
JOBFLOW = Path(sys.executable).with_name("jobflow")


async def run_command(kubeconfig: Path, *arguments: str) -> Result:
    """Run a command in a thread, because it runs an event loop."""
    return await asyncio.to_thread(jobflow, *arguments, "--kubeconfig", str(kubeconfig))


async def run_process(kubeconfig: Path, *arguments: str) -> Result:
    """Run the installed command as a process, because `--wait` handles signals."""
    process = await asyncio.create_subprocess_exec(
        JOBFLOW,
        *(*arguments, "--kubeconfig", str(kubeconfig)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(30):
        out, err = await process.communicate()
    assert process.returncode is not None
    return Result(process.returncode, out.decode(), err.decode())


async def send_and_wait_for_f(verb: Verb, kubeconfig: Path) -> int:
    """Run a command about the flow f with `--wait` on the test's own loop."""
    options = ClusterOptions(kubeconfig=str(kubeconfig))
    return await send_and_wait(verb, ["f"], Selection(), options, wait=True)


def volcano_on(world: Cluster) -> AbstractAsyncContextManager[None]:
    """Run a stand-in for Volcano, which runs vcjobs and handles Commands about them."""
    return volcano(in_process_client(world.server))


async def long_flow(world: Cluster, name: str = "f", **spec: Any) -> None:
    """Apply a flow in which b waits for a, which runs for an hour."""
    slow = template("a")
    slow["metadata"]["annotations"] = {"sandbox.jobflow.volcano.sh/duration": "1h"}
    await world.apply(slow, template("b"), flow(name, {"a": "", "b": "a"}, **spec))


async def apply_flow(world: Cluster, name: str, status: dict[str, Any] | None = None) -> None:
    """Apply a flow with the label app=NAME and this status."""
    manifest = flow(name, {"a": "", "b": "a"})
    manifest["metadata"]["labels"] = {"app": name}
    await world.apply(manifest)
    if status:
        await set_status(world, status, name)


async def set_status(world: Cluster, status: dict[str, Any], name: str = "f") -> None:
    """Merge fields into the status of a flow."""
    await write_status(world.client, JOBFLOWS, name, status)


def forbid(world: Cluster, method: str, end: str) -> None:
    """Refuse requests to paths with this ending, such as `/jobflows` or `/jobflows/f`."""
    world.server.faults.append(
        InjectedFault(
            lambda request: request.method == method and request.path.endswith(end),
            failure(403, "Forbidden", "alice must not"),
            times=None,
        )
    )
