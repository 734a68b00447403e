"""`jobflow plan`: what flows would do, and when, as a table, as JSON or as bars."""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from msgspec.structs import replace
from rich.text import Text

from jobflow.api import labels
from jobflow.api.flow.jobflow import JobFlow, JobFlowSpec, child_spec
from jobflow.api.flow.status import StepPhase
from jobflow.api.resources import QUEUES
from jobflow.api.volcano.scheduling import Queue
from jobflow.cli.flags import PlanOptions
from jobflow.cli.show.sources import FoundFlows, flows_of, is_file
from jobflow.cli.show.timeline import cut_name, ends_of_path, timeline_lines
from jobflow.client.errors import FAILED, SUCCESS, UNUSABLE, CommandError, print_error
from jobflow.client.flows.find_flow import connect, find_flows
from jobflow.client.manifests.flag_values import read_durations
from jobflow.client.options import Connection
from jobflow.core.drawing.phase_looks import style_of
from jobflow.core.drawing.svg import timeline_svg
from jobflow.core.names import format_place, stored_condition
from jobflow.core.pods.resources import parse_quantity
from jobflow.core.reasons import StepReason
from jobflow.core.spec.reuse import find_obstacle
from jobflow.core.text import format_count, format_duration, join_names, printable
from jobflow.core.timelines.time_left import History, learn
from jobflow.display.console import GAP, column_sizes, columns_of, fitting, line_width, make_console
from jobflow.display.formats import PlanOutput, print_json
from jobflow.kube.answers import ItemList
from jobflow.kube.client import ApiError, Client
from jobflow.sandbox.nodes.simulate import DEFAULT_SECONDS
from jobflow.sandbox.virtual_time.capacity import Amounts, Room, parse_capacity
from jobflow.sandbox.virtual_time.job import VirtualJob
from jobflow.sandbox.virtual_time.planned_flows import PlannedFlows, VirtualCluster, to_json

_START = datetime(2000, 1, 1, tzinfo=UTC)
"""Any time: only the time since then is shown."""
_DURATION = f"{labels.SANDBOX_PREFIX}duration"
_TASK_PHASES = f"{labels.SANDBOX_PREFIX}task-phases"
_OUTPUT = f"{labels.SANDBOX_PREFIX}output"


@dataclass(slots=True)
class Script:
    """How long vcjobs run, and their outputs."""

    durations: Mapping[str, float]
    """Seconds by name of a step or JobTemplate."""
    history: History
    by_default: dict[str, None] = field(default_factory=dict)
    """The steps whose time nothing says."""
    approved_at_once: dict[str, None] = field(default_factory=dict)
    """The steps whose approval is given at once, because nothing says when."""

    def approve_after(self, step: str) -> timedelta:
        if (seconds := self.durations.get(step)) is None:
            self.approved_at_once[step] = None
            return timedelta()
        return timedelta(seconds=seconds)

    def annotate(self, step: str, own: Mapping[str, str]) -> Mapping[str, str]:
        annotations = dict(own)
        # `NAMESPACE.TEMPLATE`; a step without a template is known by its own name
        template = annotations.get(labels.CREATED_BY_TEMPLATE, "").partition(".")[2]
        work = template or step
        index = annotations.get(labels.INDEX)
        outputs = self.history.outputs_of(work, step, None if index is None else int(index))
        if outputs is not None:
            annotations[_OUTPUT] = json.dumps(outputs)
        # one number, no distribution: an order of jobs exists only for given durations
        seconds = self.durations.get(step, self.durations.get(work))
        if seconds is None:
            seconds = self.history.quantile(work, 0.5)
        if seconds is not None:
            # the sandbox prefers phases of tasks to a duration
            annotations.pop(_TASK_PHASES, None)
            annotations[_DURATION] = f"{seconds:.6f}s"
        elif not {_DURATION, _TASK_PHASES} & annotations.keys():
            self.by_default[step] = None
        return annotations


async def print_plan(names: Sequence[str], connection: Connection, options: PlanOptions) -> int:
    """Plan the flows, and print what would happen."""
    output, capacity = options.output, None
    if options.capacity is not None:
        try:
            capacity = parse_capacity(options.capacity)
        except ValueError as error:
            faults = "\n".join(f"--capacity: {line}" for line in str(error).splitlines())
            raise CommandError(UNUSABLE, faults) from None
    found = await flows_of(names, connection, options, sources=True)
    if output is PlanOutput.SVG and len(found.flows) > 1:
        raise CommandError(UNUSABLE, "-o svg shows one flow: give one, or use -o gantt")
    given: Mapping[str, float] = {}
    if options.durations is not None:
        steps = (name for flow in found.flows for name in _step_names(flow.spec))
        templates = (name for flow in found.flows for name in flow.templates)
        given = read_durations(options.durations, dict.fromkeys((*steps, *templates)))
    history, queues = History(), dict[str, Amounts]()
    # a file alone is planned without a cluster
    reads_queues = capacity is None and not all(map(is_file, names))
    if options.learn or reads_queues:
        async with await connect(connection) as client:
            if options.learn:
                history = learn([flow for flow in await find_flows(client) if flow.final])
            if reads_queues:
                queues = await _capabilities(client)
    script = Script(given, history)
    cluster = _run(found, script, capacity, queues)
    for flow in found.flows:
        if flow.status.start_time is not None:
            sentence = f"JobFlow {flow.metadata.name} has started: this is the plan of a new run"
            print_error(sentence, severity="warning")
    by_default, at_once = tuple(script.by_default), tuple(script.approved_at_once)
    print_planned(PlannedFlows(cluster, _START, by_default, at_once), output)
    return SUCCESS


def _step_names(spec: JobFlowSpec) -> Iterator[str]:
    """Yield the names of steps, also of child flows."""
    for step in spec.all_steps:
        yield step.name
        for raw in step.child_flows:
            yield from _step_names(child_spec(raw))


async def _capabilities(client: Client) -> dict[str, Amounts]:
    """Return what the jobs of each queue may use, as far as it is limited."""
    found: dict[str, Amounts] = {}
    try:
        async for page in client.list(QUEUES, ItemList[Queue]):
            for queue in page.items or ():
                limits = (queue.spec.capability or {}).items()
                amounts = {name: parse_quantity(value) for name, value in limits}
                found[queue.metadata.name] = {
                    name: amount for name, amount in amounts.items() if amount is not None
                }
    except ApiError:  # many users may not read queues: they belong to the cluster
        sentence = "the queues cannot be read, so that the capacity is unlimited: set --capacity"
        print_error(sentence, severity="warning")
    return found


def _run(
    found: FoundFlows, script: Script, capacity: Amounts | None, queues: Mapping[str, Amounts]
) -> VirtualCluster:
    """Return the cluster after all flows have ended. Raises CommandError if one never does."""
    # --capacity is shared by all queues; without it each queue has its own, or none
    rooms = {queue: Room(limits) for queue, limits in queues.items()}
    shared = None if capacity is None else Room(capacity)
    cluster = VirtualCluster(
        _START,
        room_of=lambda queue: shared or rooms.setdefault(queue, Room({})),
        annotate=script.annotate,
        approve_after=script.approve_after,
    )
    for flow in found.flows:
        namespace = flow.metadata.namespace
        # a flow finds templates of its own namespace alone
        templates = (each for each in found.templates if each.metadata.namespace == namespace)
        cluster.add(_plannable(flow, found.sources), templates, found.sources)
    cluster.run()
    faults = [
        f"the job {each.metadata.name} of step {each.step} can never start: its first pods ask "
        f"for {_amounts(each.gang, names)}, the capacity is "
        f"{_amounts(each.room.capacity, names)}"
        for each, names in cluster.too_large()
    ]
    faults += _endless(cluster)
    if faults:
        raise CommandError(FAILED, "\n".join(faults))
    return cluster


def _plannable(flow: JobFlow, sources: Mapping[str, JobFlow]) -> JobFlow:
    """Return a flow that reuses another one only if that can be done; else a warning is printed."""
    if flow.spec.reuse is None:
        return flow
    if flow.metadata.uid:
        obstacle = find_obstacle(flow, sources.get(flow.spec.reuse.flow))
        why = "" if obstacle is None else obstacle.why
    else:
        why = f"a file does not say what flow {flow.spec.reuse.flow} has done"
    if not why:
        return flow
    sentence = f"JobFlow {flow.metadata.name} is planned as if it reused nothing: {why}"
    print_error(sentence, severity="warning")
    return replace(flow, spec=replace(flow.spec, reuse=None))


def _amounts(amounts: Amounts, names: Sequence[str]) -> str:
    return join_names(
        f"{amounts[name] / 2**30:g}Gi {name}" if name == "memory" else f"{amounts[name]:g} {name}"
        for name in names
    )


def _endless(cluster: VirtualCluster) -> Iterator[str]:
    """Yield a sentence for each flow that never ends, unless a job of it is too large."""
    # its step waits for ever because of that
    explained = {each.flow.flow.metadata.uid for each, _ in cluster.too_large()}
    running = {
        each.flow.flow.metadata.uid: f"the job {each.metadata.name} of step {each.step} stays "
        f"{each.status.state.phase}"
        for each in reversed(cluster.jobs)  # so that the first job that stays is named
        if each.end is None
    }
    for flow in cluster.flows:
        uid = flow.metadata.uid
        if not flow.final and uid not in explained:
            yield f"JobFlow {flow.metadata.name} never ends: " + (
                running.get(uid) or _why_nothing_runs(flow)
            )


def _why_nothing_runs(flow: JobFlow) -> str:
    if flow.status.suspended_at is not None:
        return "it is suspended (spec.suspend), and no step starts until it is resumed"
    for step in flow.all_steps:
        condition = stored_condition(flow, step.name)
        if condition is not None and condition.reason and condition.phase == StepPhase.WAITING:
            why = f"step {step.name} {printable(condition.message)}"
            if condition.reason != StepReason.WAITING_FOR_TEMPLATE:
                return why
            pass_it = "pass the file of the JobTemplate too"
            return f"{why}: {pass_it}, or apply it if the flow is on the cluster"
    return "no step can start"


_HEADER = ("START", "END", "DURATION", "STEP", "ATTEMPT", "PHASE", "JOB")
_OPTIONAL = ("JOB", "DURATION", "ATTEMPT")
"""Columns that are left out on a narrow terminal, in this order."""
_REASONS = 20
"""Different reasons that are shown why steps did not complete."""


def print_planned(planned: PlannedFlows, output: PlanOutput) -> None:
    console = make_console()
    width, ascii_only = columns_of(console), console.options.ascii_only
    if output in (PlanOutput.JSON, PlanOutput.SVG):
        if output is PlanOutput.JSON:
            print_json(to_json(planned))
        else:
            [flow] = planned.cluster.flows
            sys.stdout.write(timeline_svg(flow.metadata.name, planned.timeline_of(flow)))
        for sentence in _assumptions(planned):  # stdout is for programs
            print_error(sentence, severity="warning")
        return
    has_path = output is PlanOutput.GANTT
    make_lines = gantt_lines if has_path else table_lines
    for line in make_lines(planned, width, ascii_only):
        console.print(line, soft_wrap=True)
    for text in summary(planned, has_path, ascii_only):
        console.print(Text(text), soft_wrap=width is None)


def table_lines(planned: PlannedFlows, width: int | None, ascii_only: bool) -> Iterator[Text]:
    """Yield a header, a line for each vcjob, and one for each step without a vcjob."""
    rows = [_cells(each, planned) for each in planned.jobs]
    # approvals, skipped steps and child flows have no vcjob of their own
    with_job = {(each.flow.flow.metadata.name, each.step) for each in planned.jobs}
    rows += [
        {"STEP": printable(each.step), "PHASE": each.phase}
        for each in planned.steps
        if (each.flow, each.step) not in with_job
    ]
    sizes = column_sizes(_HEADER, rows)
    # most plans have no retries
    if all(row.get("ATTEMPT", "1") == "1" for row in rows):
        del sizes["ATTEMPT"]
    sizes = fitting(sizes, _OPTIONAL, width)
    excess = 0 if width is None else line_width(sizes) - width
    sizes["STEP"] = max(sizes["STEP"] - max(excess, 0), len("STEP"))
    row: Mapping[str, str] | None
    for row in (None, *rows):
        line = Text(style="bold" if row is None else "")
        for name, size in sizes.items():
            cell = name if row is None else row.get(name, "")
            style = style_of(cell) if name == "PHASE" and row is not None else ""
            line.append(cut_name(cell, size, ascii_only), style).append(GAP)
        line.rstrip()
        if width is not None:
            line.truncate(width)
        yield line


def _cells(job: VirtualJob, planned: PlannedFlows) -> dict[str, str]:
    start, end = job.start, job.end
    return {
        "START": "" if start is None else format_duration(start - planned.start),
        "END": "" if end is None else format_duration(end - planned.start),
        "DURATION": "" if start is None or end is None else format_duration(end - start),
        "STEP": printable(format_place(job.step, job.index)),
        "ATTEMPT": (job.metadata.labels or {}).get(labels.ATTEMPT, "1"),
        "PHASE": job.status.state.phase,
        "JOB": job.metadata.name,
    }


def gantt_lines(planned: PlannedFlows, width: int | None, ascii_only: bool) -> Iterator[Text]:
    flows = planned.cluster.flows
    for flow in flows:
        if len(flows) > 1:
            yield Text(flow.metadata.name, style="bold")
        yield from timeline_lines(planned.timeline_of(flow), width or 100, ascii_only=ascii_only)
        if flow is not flows[-1]:
            yield Text()


def summary(planned: PlannedFlows, has_path: bool, ascii_only: bool) -> Iterator[str]:
    """Yield why steps did not complete, the makespan, the critical path unless it is shown already,
    the requested hours, and the steps whose times are only assumed."""
    flows = planned.cluster.flows
    # a failure upstream skips many steps with one reason
    alike: dict[tuple[str, ...], list[str]] = {}
    for each in planned.steps:
        if each.phase != StepPhase.COMPLETED:
            name = f"JobFlow {each.flow}: " if len(flows) > 1 else ""
            key = (name, each.phase, each.reason, each.message, each.remedy)
            alike.setdefault(key, []).append(each.step)
    if alike:
        yield ""
    for (name, phase, reason, message, remedy), steps in [*alike.items()][:_REASONS]:
        why = f" ({reason})" if reason else ""
        text = ". ".join(filter(None, (message, remedy)))
        yield printable(f"{name}{join_names(steps)}: {phase}{why}: {text}")
    if (more := sum(map(len, [*alike.values()][_REASONS:]))) > 0:
        yield f"{format_count(more, 'more step')} did not complete: see -o json"
    yield ""
    if reused := [each.step for each in planned.steps if each.reason == StepReason.REUSED]:
        yield printable(f"reused: {join_names(reused, shown=10)}")
    ends = ", ".join(f"{flow.metadata.name}: {flow.status.state.phase}" for flow in flows)
    yield f"makespan: {format_duration(planned.makespan)} ({ends})"
    if not has_path:
        path = ends_of_path([printable(step) for step in planned.critical_path])
        yield f"critical path: {(' > ' if ascii_only else ' → ').join(path)}"
    units = {"cpu": "core-hours", "memoryGiB": "GiB-hours", "gpu": "GPU-hours"}
    hours = [f"{planned.hours[name]:.2f} {unit}" for name, unit in units.items()]
    if any(planned.hours.values()):
        yield f"requested: {', '.join(hours)}"
    yield from _assumptions(planned)


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
