"""`jobflow plan`: what flows would do, and when, before they run."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from jobflow.api import labels
from jobflow.api.flow.jobflow import JobFlow, JobFlowSpec, child_spec
from jobflow.api.flow.status import StepPhase
from jobflow.api.resources import QUEUES, ListMeta, Struct
from jobflow.api.volcano.scheduling import Queue
from jobflow.cli.show.sources import FoundFlows, flows_of, is_file
from jobflow.client.errors import FAILED, SUCCESS, UNUSABLE, CommandError, print_error
from jobflow.client.flows.find_flow import connect, find_flows
from jobflow.client.manifests.flag_values import read_durations
from jobflow.client.options import Connection
from jobflow.core.names import format_job_name
from jobflow.core.pods.resources import parse_quantity
from jobflow.core.reasons import StepReason
from jobflow.core.text import join_names, printable
from jobflow.core.timelines.time_left import History, learn
from jobflow.display.formats import PlanOutput
from jobflow.display.plan import print_planned
from jobflow.kube.client import ApiError, Client
from jobflow.sandbox.virtual_time.capacity import Amounts, Room, parse_capacity
from jobflow.sandbox.virtual_time.planned_flows import PlannedFlows, VirtualCluster

_START = datetime(2000, 1, 1, tzinfo=UTC)
"""Any time: only the time since then is shown."""
_DURATION = f"{labels.SANDBOX_PREFIX}duration"
_TASK_PHASES = f"{labels.SANDBOX_PREFIX}task-phases"
_OUTPUT = f"{labels.SANDBOX_PREFIX}output"
_MISSING_TEMPLATE = (
    "pass the file of the JobTemplate too, or apply it if the flow is on the cluster"
)
_UNREADABLE = "the queues cannot be read, so that the capacity is unlimited: set --capacity"


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """Flags of `jobflow plan`."""

    durations: str | None = None
    learn: bool = False
    capacity: str | None = None
    param: Sequence[str] = ()
    output: PlanOutput = PlanOutput.TABLE


class _Queues(Struct, frozen=True, kw_only=True):
    metadata: ListMeta = ListMeta()
    items: list[Queue] = []


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
        """Return how long it takes until a step is approved."""
        if (seconds := self.durations.get(step)) is None:
            self.approved_at_once[step] = None
            return timedelta()
        return timedelta(seconds=seconds)

    def annotate(self, step: str, own: Mapping[str, str]) -> Mapping[str, str]:
        """Return the annotations of a vcjob with its duration and its outputs."""
        annotations = dict(own)
        template = annotations.get(labels.CREATED_BY_TEMPLATE, "").partition(".")[2]
        work = template or step
        index = annotations.get(labels.INDEX)
        outputs = self.history.outputs_of(work, step, None if index is None else int(index))
        if outputs is not None:
            annotations[_OUTPUT] = json.dumps(outputs)
        seconds = self.durations.get(step, self.durations.get(work))
        if seconds is None:
            seconds = self.history.quantile(work, 0.5)
        if seconds is not None:
            annotations.pop(_TASK_PHASES, None)
            annotations[_DURATION] = f"{seconds:.6f}s"
        elif not {_DURATION, _TASK_PHASES} & annotations.keys():
            self.by_default[step] = None
        return annotations


async def print_plan(names: Sequence[str], connection: Connection, options: PlanOptions) -> int:
    """Plan the flows, print what would happen, and return the exit code. Raises CommandError."""
    capacity = None if options.capacity is None else _capacity(options.capacity)
    found = await flows_of(names, connection, options.param)
    if options.output is PlanOutput.SVG and len(found.flows) > 1:
        raise CommandError(UNUSABLE, "-o svg shows one flow: give one, or use -o gantt")
    given = {}
    if options.durations is not None:
        given = read_durations(options.durations, _names(found.flows))
    history, queues = History(), dict[str, Amounts]()
    reads_queues = capacity is None and not all(map(is_file, names))
    if options.learn or reads_queues:
        async with await connect(connection) as client:
            if options.learn:
                ended = [flow for flow in await find_flows(client, ()) if flow.final]
                history = learn(ended)
            if reads_queues:
                queues = await _capabilities(client)
    script = Script(given, history)
    cluster = _run(found, script, capacity, queues)
    for flow in found.flows:
        if flow.status.start_time is not None:
            sentence = f"JobFlow {flow.metadata.name} has started: this is the plan of a new run"
            print_error(sentence, severity="warning")
    by_default, at_once = tuple(script.by_default), tuple(script.approved_at_once)
    print_planned(PlannedFlows(cluster, _START, by_default, at_once), options.output)
    return SUCCESS


def _capacity(text: str) -> Amounts:
    try:
        return parse_capacity(text)
    except ValueError as error:
        faults = "\n".join(f"--capacity: {line}" for line in str(error).splitlines())
        raise CommandError(UNUSABLE, faults) from None


def _names(flows: Sequence[JobFlow]) -> dict[str, None]:
    """Return the names that --durations may have."""
    steps = (name for flow in flows for name in _step_names(flow.spec))
    templates = (name for flow in flows for name in flow.templates)
    return dict.fromkeys((*steps, *templates))


def _step_names(spec: JobFlowSpec) -> Iterator[str]:
    """Yield the names of steps, those of child flows included."""
    for step in spec.all_steps:
        yield step.name
        for raw in step.child_flows:
            yield from _step_names(child_spec(raw))


async def _capabilities(client: Client) -> dict[str, Amounts]:
    """Return what the jobs of each queue may use, as far as it is limited."""
    found: dict[str, Amounts] = {}
    try:
        async for page in client.list(QUEUES, _Queues):
            for queue in page.items:
                limits = (queue.spec.capability or {}).items()
                amounts = {name: parse_quantity(value) for name, value in limits}
                found[queue.metadata.name] = {
                    name: amount for name, amount in amounts.items() if amount is not None
                }
    except ApiError:  # many users may not read queues: they belong to the cluster
        print_error(_UNREADABLE, severity="warning")
    return found


def _run(
    found: FoundFlows,
    script: Script,
    capacity: Amounts | None,
    queues: Mapping[str, Amounts],
) -> VirtualCluster:
    """Return the cluster after all flows have ended. Raises CommandError if one never does."""
    rooms: dict[str, Room] = defaultdict(lambda: Room({}))
    rooms.update({queue: Room(limits) for queue, limits in queues.items()})
    shared = None if capacity is None else Room(capacity)
    cluster = VirtualCluster(
        _START,
        room_of=lambda queue: shared or rooms[queue],
        annotate=script.annotate,
        approve_after=script.approve_after,
    )
    for flow in found.flows:
        namespace = flow.metadata.namespace
        templates = (each for each in found.templates if each.metadata.namespace == namespace)
        cluster.add(flow, templates)
    cluster.run()
    faults = [*_too_large(cluster), *_endless(cluster)]
    if faults:
        raise CommandError(FAILED, "\n".join(faults))
    return cluster


def _too_large(cluster: VirtualCluster) -> list[str]:
    """Return a sentence for each vcjob that asks for more than there is."""
    return [
        f"the job {each.job.metadata.name} of step {each.step} can never start: its first pods ask "
        f"for {_amounts(each.job.gang, names)}, the capacity is "
        f"{_amounts(each.job.room.capacity, names)}"
        for each, names in cluster.too_large()
    ]


def _amounts(amounts: Amounts, names: Sequence[str]) -> str:
    return join_names(
        f"{amounts[name] / 2**30:g}Gi {name}" if name == "memory" else f"{amounts[name]:g} {name}"
        for name in names
    )


def _endless(cluster: VirtualCluster) -> list[str]:
    """Return a sentence for each flow that never ends, unless a job of it is too large."""
    known = {each.flow.flow.metadata.uid for each, _ in cluster.too_large()}
    flows = (each for each in cluster.flows if not each.final and each.metadata.uid not in known)
    running = {
        each.flow.flow.metadata.uid: f"the job {each.job.metadata.name} of step {each.step} stays "
        f"{each.job.status.state.phase}"
        for each in reversed(cluster.jobs)
        if each.job.end is None
    }
    return [
        f"JobFlow {flow.metadata.name} never ends: "
        + (running.get(flow.metadata.uid) or _why_nothing_runs(flow))
        for flow in flows
    ]


def _why_nothing_runs(flow: JobFlow) -> str:
    if flow.status.suspended_at is not None:
        return "it is suspended (spec.suspend), and no step starts until it is resumed"
    conditions = flow.status.conditions or {}
    for step in flow.all_steps:
        condition = conditions.get(format_job_name(flow.metadata.name, step.name))
        if condition is not None and condition.reason and condition.phase == StepPhase.WAITING:
            why = f"step {step.name} {printable(condition.message)}"
            missing = condition.reason == StepReason.WAITING_FOR_TEMPLATE
            return f"{why}: {_MISSING_TEMPLATE}" if missing else why
    return "no step can start"
