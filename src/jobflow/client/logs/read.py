"""Logs of a flow's pods, also of child flows, read one after another."""

from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import replace

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.volcano.pod import Pod
from jobflow.client.errors import UNUSABLE, CommandError, print_error, unreachable
from jobflow.client.flows.children import FlowFamily, find_below
from jobflow.client.logs import selection as choice
from jobflow.client.logs.selection import LogSelection, LogTarget
from jobflow.client.logs.stream import LogSink, read_lines
from jobflow.core.text import printable
from jobflow.kube.client import NETWORK_ERRORS, ApiError, Client


async def select_step(
    client: Client, flow: JobFlow, step: str | None, selection: LogSelection, *, follow: bool
) -> tuple[JobFlow, LogSelection]:
    """Return the flow that has the step, and the selection with it. `step`: STEP or STEP/INDEX; of
    a child flow with the steps above it, as in train/0/fit. Raises CommandError."""
    flow, above, step = await find_below(client, flow, step)
    own, index = choice.choose_step(flow, step, follow=follow)
    return flow, replace(selection, step=own, index=index, above=above)


async def read_logs(client: Client, flow: JobFlow, selection: LogSelection, sink: LogSink) -> bool:
    """Give the logs that exist to `sink`, one after another; return whether all could be read.
    Raises CommandError, and the errors of `sink`."""
    pods = await choice.list_pods(client, flow, selection)
    # later, so that the flow of a pod is known
    family = await choice.read_family(client, flow, selection)
    targets = choice.find_targets(family, pods, selection)
    if not targets:
        report_none(family, pods, selection)
    complete = True
    stamps = [("timestamps", "true")] if selection.timestamps else []
    for target in targets:
        if why := choice.why_waiting(target.pod, target.container):
            warn(target, f"no log yet: {why}")
            continue
        try:
            batches = read_lines(client, target, [*selection.query, *stamps])
            async with aclosing(batches):
                async for lines in batches:
                    sink.print(target.step, target.name, lines)
        except ApiError as error:
            choice.check_rights(error, flow)
            # 400: the container has not started, or its log is gone with it
            complete = complete and error.code == 400
            deleted = "the pod was deleted before its log was read"
            warn(target, deleted if error.not_found else error.message)
        except NETWORK_ERRORS as error:
            complete = False
            warn(target, f"the log is incomplete: {unreachable(error)}")
    return complete


def report_none(family: FlowFamily, pods: Sequence[Pod], selection: LogSelection) -> None:
    """Say why there is no log. Raises CommandError, unless that is the answer to --failed."""
    why = choice.why_none(family, choice.pods_below(family, pods, selection), selection)
    if not (
        selection.failed and choice.find_targets(family, pods, replace(selection, failed=False))
    ):
        raise CommandError(UNUSABLE, why)
    print_error(why, severity="info")


def warn(target: LogTarget, why: str) -> None:
    print_error(printable(f"{target.name}: {why}"), severity="warning")
