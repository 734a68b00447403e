"""`jobflow run`, which runs flows in a sandbox and prints how each finished, and `jobflow sandbox`,
which runs one for kubectl."""

import logging
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path

import msgspec

from jobflow.api.flow.jobflow import JobFlow
from jobflow.app.sandbox_world import SandboxOptions, sandbox_world
from jobflow.app.serve import START_ERRORS
from jobflow.client.errors import FAILED, SUCCESS, UNUSABLE, CommandError, exit_on, print_error
from jobflow.client.flows.follow import Display
from jobflow.client.manifests.check import add_flows_of_crons, check_files
from jobflow.client.manifests.objects import Manifest
from jobflow.client.options import FileOptions, NodeOptions, RunnerName
from jobflow.client.sandbox import RunResult, node_runner, run_in, run_in_sandbox
from jobflow.client.signals import interruption
from jobflow.display.console import make_console
from jobflow.display.formats import print_json
from jobflow.display.live import tree_display
from jobflow.display.report import print_fault, print_report, print_warnings
from jobflow.display.results import print_tables
from jobflow.kube.client import Client
from jobflow.runtime import logs
from jobflow.runtime.event_loop import PartDied, run
from jobflow.sandbox.nodes.process_runner import ProcessRunner
from jobflow.sandbox.nodes.runner import Runner

ShowPage = Callable[[Client], AbstractAsyncContextManager[object]]
"""Shows the flows of a cluster on a page while a body runs."""


def run_flows(
    files: FileOptions, nodes: NodeOptions, *, as_json: bool, page: ShowPage | None
) -> int:
    """Run the flows in FILEs. With a `page`, the sandbox stays until the command is interrupted."""
    with exit_on(UNUSABLE, CommandError):
        report = check_files(files)
    errors = make_console(stderr=True)
    if report.faults:
        print_report(report, errors)
        return UNUSABLE
    # a schedule is tried without waiting for its time
    crons = add_flows_of_crons(report)
    if not report.flows:
        print_error("the files contain no JobFlow: add one that uses these JobTemplates")
        return UNUSABLE
    print_warnings(report, errors)
    for cron in crons:
        sentence = "one flow of it runs now; `jobflow sandbox` runs schedules"
        print_error(f"CronJobFlow {cron}: {sentence}", severity="info")
    print_error(*assumptions(report.flows, nodes.runner), severity="warning")
    # the sandbox logs each request that fails, as a cluster does; here flows say why they failed
    logs.configure(level=logging.CRITICAL)
    console = make_console()
    display = Display() if as_json else tree_display(console)

    def show(result: RunResult) -> None:
        if as_json:
            head = {"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}}
            print_json(head | {"items": result.raw})
        else:
            print_tables(result, console)
        for fault in result.faults:
            print_fault(fault, errors)
        if not result.interrupted:
            print_error(*result.stuck)

    async def run_and_show() -> RunResult:
        with interruption() as stop:
            if page is None:
                return await run_in_sandbox(report, runner, display, stop)
            sandbox = SandboxOptions(runner=runner, gives_up=True)
            async with sandbox_world(sandbox) as world, page(world.client):
                result = await run_in(world, report, runner, display, stop, alone=False)
                show(result)
                sys.stdout.flush()
                if not result.faults:
                    await stop.wait()
                return result

    with exit_on(UNUSABLE, PartDied, CommandError, *START_ERRORS), node_runner(nodes) as runner:
        warn_of_addresses(runner)
        result = run(run_and_show())
    if page is None:  # else it was shown while the page was open
        show(result)
    return result.code


def assumptions(flows: Iterable[Manifest], runner: RunnerName) -> Iterator[str]:
    """Return the warnings about what the runner assumes. The flows have no faults."""
    if runner is not RunnerName.SIMULATE:
        return
    steps = (step for each in flows for step in msgspec.convert(each.data, JobFlow).steps)
    probes = (step.depends_on.probe for step in steps if step.depends_on is not None)
    if any(probe and (probe.http_get_list or probe.tcp_socket_list) for probe in probes):
        yield (
            "HTTP and TCP probes pass as soon as the simulated pods are Running, because nothing "
            "listens in them; use --runner process to send real requests"
        )


def warn_of_addresses(runner: Runner) -> None:
    if isinstance(runner, ProcessRunner) and not runner.has_own_addresses:
        sentence = (
            "all pods have the address 127.0.0.1, because this system has no other loopback "
            "address: two pods cannot listen on the same port"
        )
        print_error(sentence, severity="warning")


def run_sandbox(
    *, port: int, webhook_port: int, kubeconfig: Path, nodes: NodeOptions, page: ShowPage | None
) -> int:
    """Run the sandbox, and perhaps its page, until a signal."""
    logs.configure(level=logging.WARNING)  # as `serve` logs, without what goes well
    show_page = page or (lambda client: nullcontext())

    async def serve(sandbox: SandboxOptions) -> None:
        with interruption() as stop:
            async with sandbox_world(sandbox) as world, show_page(world.client):
                print(f"export KUBECONFIG={shlex.quote(str(world.kubeconfig))}")
                if isinstance(sandbox.runner, ProcessRunner):
                    print(f"# logs: {sandbox.runner.folder}")  # a comment, for `eval`
                print("ready", flush=True)
                await stop.wait()

    with (
        exit_on(UNUSABLE, OSError, file=kubeconfig),
        exit_on(UNUSABLE, CommandError, *START_ERRORS),
        exit_on(FAILED, PartDied),
        node_runner(nodes) as runner,
    ):
        warn_of_addresses(runner)
        path = kubeconfig.absolute()
        options = SandboxOptions(port, webhook_port=webhook_port, kubeconfig=path, runner=runner)
        run(serve(options))
    return SUCCESS
