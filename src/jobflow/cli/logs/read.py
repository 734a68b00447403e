"""Logs of a flow's pods, and of those of its child flows, read one after another."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import replace

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.volcano.pod import Pod
from jobflow.client.errors import UNUSABLE, CommandError, print_error, unreachable
from jobflow.client.flows.children import FlowFamily
from jobflow.client.logs import selection as choice
from jobflow.client.logs.pods import ALL, SILENCE_SECONDS, check_rights, list_pods, read_family
from jobflow.client.logs.selection import LogSelection, LogTarget
from jobflow.client.logs.stream import LONGEST_LINE, log_path
from jobflow.core.text import printable
from jobflow.display.log_lines import LogPrinter
from jobflow.kube.answers import line_batches
from jobflow.kube.client import NETWORK_ERRORS, ApiError, Client


async def read_logs(client: Client, flow: JobFlow, selection: LogSelection = ALL) -> bool:
    """Print the logs that exist, one after another; return whether all could be read. Raises
    CommandError, OutputClosed."""
    pods = await list_pods(client, flow, selection)
    family = await read_family(client, flow, selection)  # later, so that the flow of a pod is known
    targets = choice.find_targets(family, pods, selection)
    if not targets:
        report_none(family, pods, selection)
    printer = make_printer(flow)
    complete = True
    for target in targets:
        if why := choice.why_waiting(target.pod, target.container):
            warn(target, f"no log yet: {why}")
            continue
        try:
            await _copy(client, target, selection, printer)
        except ApiError as error:
            check_rights(error, flow)
            complete = complete and error.code == 400
            deleted = "the pod was deleted before its log was read"
            warn(target, deleted if error.not_found else error.message)
        except NETWORK_ERRORS as error:
            complete = False
            warn(target, f"the log is incomplete: {unreachable(error)}")
    return complete


async def _copy(
    client: Client, target: LogTarget, selection: LogSelection, printer: LogPrinter
) -> None:
    query = [("container", target.container), *selection.query]
    if selection.timestamps:
        query.append(("timestamps", "true"))
    stream = client.stream(log_path(target), query=query, silence=SILENCE_SECONDS)
    async with aclosing(stream):
        async for lines in line_batches(stream, longest=LONGEST_LINE):
            printer.print(target.step, target.name, lines)


def make_printer(flow: JobFlow) -> LogPrinter:
    """Return a printer with a colour for each step."""
    return LogPrinter([step.name for step in flow.all_steps])


def report_none(family: FlowFamily, pods: Sequence[Pod], selection: LogSelection) -> None:
    """Say why there is no log. Raises CommandError, unless that is the answer to --failed."""
    why = choice.why_none(family, choice.pods_below(family, pods, selection), selection)
    if not (
        selection.failed and choice.find_targets(family, pods, replace(selection, failed=False))
    ):
        raise CommandError(UNUSABLE, why)
    print_error(why, severity="info")


def warn(target: LogTarget, why: str) -> None:
    """Print a warning about the log of a container."""
    print_error(printable(f"{target.name}: {why}"), severity="warning")
