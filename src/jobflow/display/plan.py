"""The output of `jobflow plan`: the jobs as a table, as JSON, or the steps as bars."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence

from rich.cells import cell_len
from rich.text import Text

from jobflow.api import labels
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import StepPhase
from jobflow.client.errors import print_error
from jobflow.core.drawing.phase_looks import style_of
from jobflow.core.drawing.svg import timeline_svg
from jobflow.core.text import format_count, format_duration, join_names, printable
from jobflow.display.console import columns_of, make_console
from jobflow.display.formats import PlanOutput, print_json
from jobflow.display.timeline import cut_name, ends_of_path, timeline_lines
from jobflow.sandbox.nodes.simulate import DEFAULT_SECONDS
from jobflow.sandbox.virtual_time.planned_flows import PlannedFlows, StepJob, to_json

_GAP = "   "
_HEADER = ("START", "END", "DURATION", "STEP", "ATTEMPT", "PHASE", "JOB")
_OPTIONAL = ("JOB", "DURATION", "ATTEMPT")
"""Columns that are left out on a narrow terminal, in this order."""
_REASONS = 20
"""Different reasons that are shown why steps did not complete."""


def print_planned(planned: PlannedFlows, output: PlanOutput) -> None:
    """Print what would happen. SVG shows one flow."""
    console = make_console()
    width = columns_of(console)
    if output in (PlanOutput.JSON, PlanOutput.SVG):
        if output is PlanOutput.JSON:
            print_json(to_json(planned))
        else:
            [flow] = planned.cluster.flows
            sys.stdout.write(timeline_svg(flow.metadata.name, planned.timeline_of(flow)))
        for sentence in _assumptions(planned):
            print_error(sentence, severity="warning")
        return
    if output is PlanOutput.GANTT:
        lines = gantt_lines(planned, width or 100, ascii_only=console.options.ascii_only)
    else:
        lines = table_lines(planned, width, ascii_only=console.options.ascii_only)
    for line in lines:
        console.print(line, soft_wrap=True)
    has_path = output is PlanOutput.GANTT
    for text in summary(planned, has_path=has_path, ascii_only=console.options.ascii_only):
        console.print(Text(text), soft_wrap=width is None)


def table_lines(
    planned: PlannedFlows, width: int | None, *, ascii_only: bool = False
) -> Iterator[Text]:
    """Return a header, a line for each vcjob, and one for each step without a vcjob."""
    rows = [_cells(each, planned) for each in planned.jobs]
    with_job = {(each.flow.flow.metadata.name, each.step) for each in planned.jobs}
    rows += [
        {"STEP": printable(each.step), "PHASE": each.phase}
        for each in planned.steps
        if (each.flow, each.step) not in with_job
    ]
    sizes = _sizes(rows, width)
    row: Mapping[str, str] | None
    for row in (None, *rows):
        line = Text(style="bold" if row is None else "")
        for name, size in sizes.items():
            cell = name if row is None else row.get(name, "")
            style = style_of(cell) if name == "PHASE" and row is not None else ""
            line.append(cut_name(cell, size, ascii_only), style).append(_GAP)
        line.rstrip()
        if width is not None:
            line.truncate(width)
        yield line


def _sizes(rows: Sequence[Mapping[str, str]], width: int | None) -> dict[str, int]:
    """Return the columns that fit into the width, with their sizes."""
    sizes = {
        name: max(cell_len(cell) for cell in (name, *(row.get(name, "") for row in rows)))
        for name in _HEADER
    }
    if all(row.get("ATTEMPT", "1") == "1" for row in rows):
        del sizes["ATTEMPT"]
    for name in _OPTIONAL:
        if _excess(sizes, width) > 0:
            sizes.pop(name, None)
    sizes["STEP"] = max(sizes["STEP"] - max(_excess(sizes, width), 0), len("STEP"))
    return sizes


def _excess(sizes: Mapping[str, int], width: int | None) -> int:
    """Return by how many columns a line exceeds the width."""
    return 0 if width is None else sum(sizes.values()) + len(_GAP) * (len(sizes) - 1) - width


def _cells(each: StepJob, planned: PlannedFlows) -> dict[str, str]:
    job = each.job
    start, end = job.start, job.end
    return {
        "START": "" if start is None else format_duration(start - planned.start),
        "END": "" if end is None else format_duration(end - planned.start),
        "DURATION": "" if start is None or end is None else format_duration(end - start),
        "STEP": printable(each.step if each.index is None else f"{each.step}/{each.index}"),
        "ATTEMPT": (job.metadata.labels or {}).get(labels.ATTEMPT, "1"),
        "PHASE": job.status.state.phase,
        "JOB": job.metadata.name,
    }


def gantt_lines(planned: PlannedFlows, width: int, *, ascii_only: bool = False) -> Iterator[Text]:
    """Return the timeline of each flow, below its name if there are several."""
    flows = planned.cluster.flows
    for flow in flows:
        if len(flows) > 1:
            yield Text(flow.metadata.name, style="bold")
        yield from timeline_lines(planned.timeline_of(flow), width, ascii_only=ascii_only)
        if flow is not flows[-1]:
            yield Text()


def summary(
    planned: PlannedFlows, *, has_path: bool = False, ascii_only: bool = False
) -> Iterator[str]:
    """Return why steps did not complete, the makespan, the critical path unless it is shown
    already, the requested hours, and the steps whose times are only assumed."""
    ends = ", ".join(map(_end, planned.cluster.flows))
    if reasons := [*_reasons(planned)]:
        yield ""
        yield from reasons
    yield ""
    yield f"makespan: {format_duration(planned.makespan)} ({ends})"
    if not has_path:
        steps = ends_of_path([printable(step) for step in planned.critical_path])
        yield f"critical path: {(' > ' if ascii_only else ' → ').join(steps)}"
    units = {"cpu": "core-hours", "memoryGiB": "GiB-hours", "gpu": "GPU-hours"}
    hours = [f"{planned.hours[name]:.2f} {unit}" for name, unit in units.items()]
    if any(planned.hours.values()):
        yield f"requested: {', '.join(hours)}"
    yield from _assumptions(planned)


def _reasons(planned: PlannedFlows) -> Iterator[str]:
    """Yield a sentence for all steps that did not complete for the same reason."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for each in planned.steps:
        if each.phase != StepPhase.COMPLETED:
            flow = f"JobFlow {each.flow}: " if len(planned.cluster.flows) > 1 else ""
            key = (flow, each.phase, each.reason, each.message, each.remedy)
            alike.setdefault(key, []).append(each.step)
    for (flow, phase, reason, message, remedy), steps in [*alike.items()][:_REASONS]:
        why = f" ({reason})" if reason else ""
        text = ". ".join(filter(None, (message, remedy)))
        yield printable(f"{flow}{join_names(steps)}: {phase}{why}: {text}")
    if (more := sum(map(len, [*alike.values()][_REASONS:]))) > 0:
        yield f"{format_count(more, 'more step')} did not complete: see -o json"


def _end(flow: JobFlow) -> str:
    return f"{flow.metadata.name}: {flow.status.state.phase}"


def _assumptions(planned: PlannedFlows) -> Iterator[str]:
    if steps := planned.by_default:
        verb = "runs" if len(steps) == 1 else "run"
        listed = join_names(steps, shown=10)
        yield f"{listed} {verb} {DEFAULT_SECONDS:g}s by default: set their times with --durations"
    if steps := planned.approved_at_once:
        verb = "is" if len(steps) == 1 else "are"
        listed = join_names(steps, shown=10)
        yield (
            f"{listed} {verb} approved at once: set the times until then with --durations; after "
            "approval.timeout its default is the answer"
        )
