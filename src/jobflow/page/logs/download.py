"""The logs of a step as a file of plain text."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from jobflow.api.flow.jobflow import JobFlow
from jobflow.client.errors import CommandError
from jobflow.client.logs.clean import clean
from jobflow.client.logs.pods import SILENCE_SECONDS, list_pods, read_family
from jobflow.client.logs.selection import (
    LogSelection,
    LogTarget,
    find_targets,
    pods_below,
    why_none,
    why_waiting,
)
from jobflow.client.logs.stream import LONGEST_LINE, log_path
from jobflow.kube.client import NETWORK_ERRORS, ApiError, Client
from jobflow.kube.reading import line_batches


async def log_file(
    client: Client, flow: JobFlow, selection: LogSelection
) -> AsyncGenerator[bytes, None]:
    """Yield the logs that exist, one after another, as `jobflow logs` prints them. What cannot be
    read is said in its place."""
    try:
        pods = await list_pods(client, flow, selection)
        family = await read_family(client, flow, selection)
    except (CommandError, *NETWORK_ERRORS) as error:
        yield f"{error}\n".encode()
        return
    targets = find_targets(family, pods, selection)
    if not targets:
        none = why_none(family, pods_below(family, pods, selection), selection)
        yield f"{none}\n".encode()
    async with client.sibling() as streams:
        for target in targets:
            async with aclosing(_one_log(streams, target, targets)) as parts:
                async for part in parts:
                    yield part


async def _one_log(
    client: Client, target: LogTarget, targets: Sequence[LogTarget]
) -> AsyncGenerator[bytes, None]:
    prefix = f"{target.name} │ " if len(targets) > 1 else ""
    if why := why_waiting(target.pod, target.container):
        yield f"{target.name}: no log yet: {why}\n".encode()
        return
    query = [("container", target.container)]
    stream = client.stream(log_path(target), query=query, silence=SILENCE_SECONDS)
    try:
        async with aclosing(stream):
            async for lines in line_batches(stream, longest=LONGEST_LINE):
                text = "".join(f"{prefix}{clean(line)}\n" for line in lines)
                yield text.encode(errors="replace")
    except (ApiError, *NETWORK_ERRORS) as error:
        yield f"{target.name}: the log is incomplete: {error}\n".encode()
