"""Logs of a flow's pods, and of those of its child flows, read one after another."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import replace

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.meta import ListMeta, Struct
from jobflow.api.resources import PODS
from jobflow.api.volcano.pod import Pod
from jobflow.cli.display.log_lines import LogPrinter
from jobflow.cli.display.report import printable
from jobflow.cli.errors import FAILED, UNUSABLE, CommandError, print_error, unreachable
from jobflow.cli.flows.children import FlowFamily, may_have_children, read_children
from jobflow.cli.flows.find_flow import raise_unless_missing
from jobflow.cli.logs.selection import (
    LogSelection,
    LogTarget,
    find_targets,
    pods_below,
    pods_queries,
    why_none,
    why_waiting,
)
from jobflow.cli.logs.stream import LONGEST_LINE, log_path
from jobflow.kube.client import NETWORK_ERRORS, ApiError, Client, Query
from jobflow.kube.reading import line_batches

ALL = LogSelection()
SILENCE_SECONDS = 60.0
"""How long an API server may take to send more of a log that it has."""


class _Pods(Struct, frozen=True, kw_only=True):
    metadata: ListMeta = ListMeta()
    items: list[Pod] = []


async def read_logs(client: Client, flow: JobFlow, selection: LogSelection = ALL) -> bool:
    """Print the logs that exist, one after another; return whether all could be read. Raises
    CommandError, OutputClosed."""
    pods = await list_pods(client, flow, selection)
    family = await read_family(client, flow, selection)  # later, so that the flow of a pod is known
    targets = find_targets(family, pods, selection)
    if not targets:
        report_none(family, pods, selection)
    printer = make_printer(flow)
    complete = True
    for target in targets:
        if why := why_waiting(target.pod, target.container):
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


async def read_family(client: Client, flow: JobFlow, selection: LogSelection) -> FlowFamily:
    """Return the flow with the flows below it, if the selected step may have some. Raises
    CommandError."""
    if not may_have_children(flow, selection.step):
        return FlowFamily(flow, (), selection.above)
    return FlowFamily(flow, (await read_children(client, [flow])).values(), selection.above)


async def list_pods(client: Client, flow: JobFlow, selection: LogSelection) -> list[Pod]:
    """Return the pods that the labels select. Raises CommandError."""
    return [
        pod for query in pods_queries(flow, selection) for pod in await _list(client, flow, query)
    ]


async def _list(client: Client, flow: JobFlow, query: Query) -> list[Pod]:
    found: list[Pod] = []
    pages = client.list(PODS, _Pods, namespace=flow.metadata.namespace, query=query)
    try:
        async with aclosing(pages):
            async for page in pages:
                found += page.items
    except ApiError as error:
        check_rights(error, flow)
        raise CommandError(FAILED, error.message) from None
    return found


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
    why = why_none(family, pods_below(family, pods, selection), selection)
    if not (selection.failed and find_targets(family, pods, replace(selection, failed=False))):
        raise CommandError(UNUSABLE, why)
    print_error(why, severity="info")


def check_rights(error: ApiError, flow: JobFlow) -> None:
    """Raise CommandError if the user must not read logs."""
    if error.code == 401:
        raise_unless_missing(error)
    if error.code == 403:
        needed = (
            f'the rights to list pods and get pods/log in namespace "{flow.metadata.namespace}"'
        )
        raise CommandError(FAILED, f"logs need {needed}: {error.message}") from None


def warn(target: LogTarget, why: str) -> None:
    """Print a warning about the log of a container."""
    print_error(printable(f"{target.name}: {why}"), severity="warning")
