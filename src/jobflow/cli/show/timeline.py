"""`jobflow timeline`: when each step of a flow waited, was queued and ran."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import FlowPhase
from jobflow.cli.show.sources import write
from jobflow.client.errors import FAILED, SUCCESS, CommandError, print_error
from jobflow.client.flows.children import read_children
from jobflow.client.flows.find_flow import connect, find_flow, find_flows
from jobflow.client.options import Connection
from jobflow.core.drawing.svg import timeline_svg
from jobflow.core.timelines.rows import with_children
from jobflow.core.timelines.spans import State
from jobflow.core.timelines.time_left import NoEstimate, TimeLeft, learn, time_left
from jobflow.core.timelines.timeline import StepTimeline, Timeline, timeline
from jobflow.display.console import columns_of, make_console
from jobflow.display.formats import DrawingOutput, print_json
from jobflow.display.timeline import timeline_lines
from jobflow.kube.client import Client

_PIPE_WIDTH = 100
"""Columns, if the output is not a terminal."""


async def print_timeline(name: str, connection: Connection, output: DrawingOutput) -> int:
    """Print the timeline of a flow and return the exit code. Raises CommandError."""
    now = datetime.now(UTC)
    async with await connect(connection) as client:
        flow = await find_flow(client, name)
        found = timeline(flow, now=now)
        if found is None:
            raise CommandError(FAILED, _without_times(flow))
        children = await read_children(client, [flow])
        found = with_children(found, flow, children, now=now)
        left = await _estimate(client, flow, children, now) if found.is_open else None
    if output is DrawingOutput.JSON:
        print_json(to_json(flow, found, left))
        return SUCCESS
    if output is DrawingOutput.SVG:
        write(timeline_svg(flow.metadata.name, found))
        return SUCCESS
    console = make_console()
    width = columns_of(console) or _PIPE_WIDTH
    for line in timeline_lines(found, width, left, ascii_only=console.options.ascii_only):
        console.print(line, soft_wrap=True)
    return SUCCESS


def _without_times(flow: JobFlow) -> str:
    phase = flow.status.state.phase or FlowPhase.PENDING
    if phase == FlowPhase.PENDING:
        return f"JobFlow {flow.metadata.name} has not started: it is {phase}"
    return (
        f"JobFlow {flow.metadata.name} is {phase}, but its status has no times: "
        "a controller that records none has run it"
    )


async def _estimate(
    client: Client, flow: JobFlow, children: Mapping[str, JobFlow], now: datetime
) -> TimeLeft | NoEstimate:
    """Return the time left by the flows of the namespace, if they can be listed."""
    try:
        flows = await find_flows(client, ())
    except CommandError as error:
        print_error(f"the time left is unknown: {error}", severity="warning")
        return NoEstimate("the flows of the namespace cannot be listed")
    return time_left(flow, learn(flows), now=now, children=children)


def to_json(flow: JobFlow, found: Timeline, left: TimeLeft | NoEstimate | None) -> dict[str, Any]:
    """Return the timeline as JSON: times in RFC 3339, durations in seconds. Ends that are not known
    yet are null; all keys always exist."""
    return {
        "namespace": flow.metadata.namespace,
        "flow": flow.metadata.name,
        "phase": flow.status.state.phase or FlowPhase.PENDING,
        "start": _time(found.start),
        "end": None if found.is_open else _time(found.end),
        "seconds": found.duration.total_seconds(),
        "suspendedSeconds": found.suspended.total_seconds(),
        "criticalPath": list(found.critical_path),
        "criticalSeconds": _seconds(found.critical_times),
        "steps": [_step(row) for row in found.steps],
        "timeLeft": _time_left(left) if isinstance(left, TimeLeft) else None,
        "timeLeftUnknown": left.why if isinstance(left, NoEstimate) else None,
    }


def _step(row: StepTimeline) -> dict[str, Any]:
    return {
        "step": row.step,
        "phase": row.phase,
        "critical": row.is_critical,
        "after": row.after or None,
        "start": _time(row.start),
        "end": None if row.is_open else _time(row.end),
        "seconds": _seconds(row.times),
        "spans": [
            {
                "state": span.state.value,
                "start": _time(span.start),
                "end": None if span.is_open else _time(span.end),
                "job": span.job or None,
            }
            for span in row.spans
        ],
    }


def _time_left(left: TimeLeft) -> dict[str, Any]:
    return {
        "lowSeconds": left.low.total_seconds(),
        "highSeconds": left.high.total_seconds(),
        "atLeast": left.at_least,
        "runs": left.runs,
        "unknown": list(left.unknown),
    }


def _seconds(times: Mapping[State, timedelta]) -> dict[str, float]:
    return {state.value: time.total_seconds() for state, time in times.items()}


def _time(moment: datetime | None) -> str | None:
    return None if moment is None else moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
