"""`jobflow sandbox`: runs a sandbox for kubectl."""

from __future__ import annotations

import logging
import shlex
from pathlib import Path

from jobflow.app.serve import START_ERRORS, SandboxOptions, sandbox_world
from jobflow.cli.errors import FAILED, SUCCESS, UNUSABLE, exit_on
from jobflow.cli.flags import Nodes
from jobflow.cli.local.node_runner import LogFolderError, node_runner
from jobflow.cli.signals import interruption
from jobflow.runtime import logs
from jobflow.runtime.event_loop import run
from jobflow.runtime.task_group import PartDied
from jobflow.sandbox.nodes.process.runner import ProcessRunner


def run_sandbox(*, port: int, webhook_port: int, kubeconfig: Path, nodes: Nodes) -> int:
    """Run the sandbox until a signal and return the exit code."""
    logs.configure(level=logging.WARNING)
    cannot_start = (LogFolderError, *START_ERRORS)
    with (
        exit_on(UNUSABLE, OSError, file=kubeconfig),
        exit_on(UNUSABLE, *cannot_start),
        exit_on(FAILED, PartDied),
        node_runner(nodes) as runner,
    ):
        path = kubeconfig.absolute()
        run(_serve(SandboxOptions(port, webhook_port=webhook_port, kubeconfig=path, runner=runner)))
    return SUCCESS


async def _serve(sandbox: SandboxOptions) -> None:
    with interruption() as stop:
        async with sandbox_world(sandbox) as world:
            print(f"export KUBECONFIG={shlex.quote(str(world.kubeconfig))}")
            if isinstance(sandbox.runner, ProcessRunner):
                print(f"# logs: {sandbox.runner.folder}")
            print("ready", flush=True)
            await stop.wait()
