"""`jobflow sandbox`: runs a sandbox for kubectl; and the pods of any sandbox, as the flags say."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path

import msgspec

from jobflow.api.flow.jobflow import JobFlow
from jobflow.app.sandbox_world import SandboxOptions, sandbox_world
from jobflow.app.serve import START_ERRORS
from jobflow.client.errors import FAILED, SUCCESS, UNUSABLE, CommandError, exit_on
from jobflow.client.manifests.objects import Manifest
from jobflow.client.options import NodeOptions, RunnerName
from jobflow.client.sandbox import node_runner
from jobflow.client.signals import interruption
from jobflow.kube.client import Client
from jobflow.runtime import logs
from jobflow.runtime.event_loop import run
from jobflow.runtime.task_group import PartDied
from jobflow.sandbox.nodes.process_runner import ProcessRunner

ShowPage = Callable[[Client], AbstractAsyncContextManager[object]]
"""Shows the flows of a cluster on a page while a body runs."""


def assumptions(flows: Iterable[Manifest], runner: RunnerName) -> Iterator[str]:
    """Return the warnings about what the runner assumes. The flows have no faults."""
    if runner is RunnerName.SIMULATE and any(map(_has_network_probe, flows)):
        yield (
            "HTTP and TCP probes pass as soon as the simulated pods are Running, because nothing "
            "listens in them; use --runner process to send real requests"
        )


def _has_network_probe(manifest: Manifest) -> bool:
    steps = msgspec.convert(manifest.data, JobFlow).steps
    probes = (step.depends_on.probe for step in steps if step.depends_on is not None)
    return any(probe and (probe.http_get_list or probe.tcp_socket_list) for probe in probes)


def run_sandbox(
    *,
    port: int,
    webhook_port: int,
    kubeconfig: Path,
    nodes: NodeOptions,
    page: ShowPage | None = None,
) -> int:
    """Run the sandbox, and perhaps its page, until a signal and return the exit code."""
    logs.configure(level=logging.WARNING)
    with (
        exit_on(UNUSABLE, OSError, file=kubeconfig),
        exit_on(UNUSABLE, CommandError, *START_ERRORS),
        exit_on(FAILED, PartDied),
        node_runner(nodes) as runner,
    ):
        path = kubeconfig.absolute()
        options = SandboxOptions(port, webhook_port=webhook_port, kubeconfig=path, runner=runner)
        run(_serve(options, page or _show_no_page))
    return SUCCESS


def _show_no_page(client: Client) -> AbstractAsyncContextManager[None]:
    return nullcontext()


async def _serve(sandbox: SandboxOptions, page: ShowPage) -> None:
    with interruption() as stop:
        async with sandbox_world(sandbox) as world, page(world.client):
            print(f"export KUBECONFIG={shlex.quote(str(world.kubeconfig))}")
            if isinstance(sandbox.runner, ProcessRunner):
                print(f"# logs: {sandbox.runner.folder}")
            print("ready", flush=True)
            await stop.wait()
