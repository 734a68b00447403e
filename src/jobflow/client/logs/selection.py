"""The logs that are read, of a flow and of its child flows, and why there may be none."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from jobflow.api.flow.jobflow import JobFlow, RetainPolicy
from jobflow.api.flow.status import CANCELLED, ENDED_STEP_PHASES, TIMEOUT, RunCondition, StepPhase
from jobflow.api.labels import ATTEMPT, CREATED_BY_FLOW, INDEX, ROOT, STEP
from jobflow.api.resources import PODS, ObjectMeta
from jobflow.api.volcano.job import JobPhase
from jobflow.api.volcano.pod import ContainerStatus, Pod
from jobflow.client.conditions import condition_of, read_index
from jobflow.client.errors import FAILED, UNUSABLE, CommandError
from jobflow.client.flows.children import FlowFamily, PlacedFlow, may_have_children, read_children
from jobflow.client.flows.find_flow import find_step, raise_unless_missing
from jobflow.core.names import (
    format_job_name,
    format_place,
    qualify_name,
    root_label,
    split_attempt_name,
    to_label_value,
)
from jobflow.core.reasons import StepReason
from jobflow.core.suggest import Suggester, did_you_mean
from jobflow.core.text import format_command
from jobflow.core.work import work_of
from jobflow.kube.answers import ItemList
from jobflow.kube.client import ApiError, Client, Query

_NEVER = datetime.max.replace(tzinfo=UTC)
_ABORTS = frozenset(
    {
        CANCELLED,
        TIMEOUT,
        StepReason.FAILURE_POLICY,
        StepReason.DAEMON_ENDED,
        StepReason.SUSPENDED,
        StepReason.CANCELLED_BY_USER,
        StepReason.SKIPPED_BY_USER,
    }
)
"""Reasons for which JobFlow aborts a job, whose pods Volcano then deletes."""
_LATER = "-f shows the logs of those that will start"


@dataclass(frozen=True, slots=True)
class LogSelection:
    """The logs to read; by default those of all containers of the flow."""

    step: str | None = None
    index: int | None = None
    """The item of a forEach or the run of a repeat, from 0."""
    above: tuple[str, ...] = ()
    """If the flow is a child: the steps above it that lead to it, such as `train/0`."""
    task: str | None = None
    pod: str | None = None
    container: str | None = None
    """None: all but init containers."""
    attempt: str | None = None
    """The number of an attempt, as the pods have it as a label."""
    failed: bool = False
    """Only containers, init containers too, that have ended with an error."""
    tail: int | None = None
    since_seconds: int | None = None
    timestamps: bool = False

    @property
    def query(self) -> Query:
        values = {"tailLines": self.tail, "sinceSeconds": self.since_seconds}
        return [(name, str(value)) for name, value in values.items() if value is not None]


ALL = LogSelection()


@dataclass(frozen=True, slots=True)
class LogTarget:
    """A container whose log is read."""

    step: str
    """The step; of a child flow with the steps above it: `train/0/fit`."""
    pod: Pod
    container: str
    name: str
    """`step/pod`, or `step/pod/container` if the pod has several."""


def choose_step(flow: JobFlow, text: str | None, *, follow: bool) -> tuple[str | None, int | None]:
    """Return the step and the index of `STEP` or `STEP/INDEX`. With `follow`, an item may start
    later. Raises CommandError."""
    if text is None:
        return None, None
    step, number = find_step(flow, text)
    name = step.name
    if number is None:
        return name, None
    condition = condition_of(flow, name)
    started = [run.index for run in condition.runs or () if run.index is not None]
    if (index := read_index(number)) is not None:
        # an item that has not started has a log only for those who wait
        may_start = follow and condition.phase not in ENDED_STEP_PHASES
        if may_start or index in started:
            return name, index
    known = "none has started"
    if started:
        first, last = min(started), max(started)
        known = f"the started ones are {first}" + (f" to {last}" if last > first else "")
    raise CommandError(UNUSABLE, f'step "{name}" has no item "{number}": {known}')


def pods_queries(flow: JobFlow, selection: LogSelection) -> list[Query]:
    """Return the label selectors of the pods: those of the flow itself, which have the labels of
    their job's attempt, and those of all child flows, if there may be some."""
    meta = flow.metadata
    own = to_label_value(qualify_name(meta.namespace, meta.name))
    labels = {CREATED_BY_FLOW: own}
    if selection.step is not None:
        labels[STEP] = to_label_value(selection.step)
    if selection.index is not None:
        labels[INDEX] = str(selection.index)
    selectors = [",".join(f"{key}={value}" for key, value in labels.items())]
    if may_have_children(flow, selection.step):
        selectors.append(f"{ROOT}={root_label(flow)},{CREATED_BY_FLOW}!={own}")
    return [[("labelSelector", selector)] for selector in selectors]


def pods_below(family: FlowFamily, pods: Iterable[Pod], selection: LogSelection) -> list[Pod]:
    """Return the pods of the selected step or item, or of the flow, and of the flows below it."""
    return [pod for pod in pods if place_pod(family, pod, selection) is not None]


def find_targets(
    family: FlowFamily, pods: Iterable[Pod], selection: LogSelection
) -> list[LogTarget]:
    """Return the selected containers of pods in the order in which the pods started; of those that
    started in the same second, in the order of the steps."""
    found = []
    for pod in sorted(pods, key=lambda pod: _start_key(family, pod)):
        name, labels = pod.metadata.name, pod.metadata.labels or {}
        if selection.pod not in (None, name) or selection.task not in (None, pod.task):
            continue
        if selection.attempt not in (None, attempt_of(pod)):
            continue
        if (flow := place_pod(family, pod, selection)) is None:
            continue
        label = labels.get(STEP, "")
        step = flow.prefix + flow.step_names.get(label, label)
        main = [each.name for each in pod.spec.containers or ()]
        # init containers tell little, unless one is named or has failed
        all_of_them = selection.container is not None or selection.failed
        for container in containers_of(pod) if all_of_them else main:
            if selection.container not in (None, container):
                continue
            if selection.failed and not _has_failed(pod, container):
                continue
            prefix = f"{step}/{name}" if main == [container] else f"{step}/{name}/{container}"
            found.append(LogTarget(step, pod, container, prefix))
    return found


def created_by(pod: Pod) -> str:
    """Return the value of the label that names the flow of a pod."""
    return (pod.metadata.labels or {}).get(CREATED_BY_FLOW, "")


def attempt_of(pod: Pod) -> str:
    """Return the number of the attempt that a pod belongs to, "" if it has no such label."""
    return (pod.metadata.labels or {}).get(ATTEMPT, "")


def _start_key(family: FlowFamily, pod: Pod) -> tuple[datetime, list[int], str]:
    meta, labels = pod.metadata, pod.metadata.labels or {}
    order: list[int] = []
    if (found := family.find(created_by(pod))) is not None:
        step = found.step_names.get(labels.get(STEP, ""), "")
        first, *indexes = "/".join((*found.path, step)).split("/")
        # pods of one second are in the order of the steps above them, then of their own
        order = [_position(family.top, first), *(read_index(each) or 0 for each in indexes)]
        order += [_position(found.flow, step), read_index(labels.get(INDEX, "")) or 0]
    return pod.status.start_time or _NEVER, order, meta.name


def _position(flow: JobFlow, step: str) -> int:
    return next((i for i, each in enumerate(flow.all_steps) if each.name == step), -1)


def place_pod(family: FlowFamily, pod: Pod, selection: LogSelection) -> PlacedFlow | None:
    """Return the flow of a pod; None if the pod does not belong to the selected step or item."""
    found = family.find(created_by(pod))
    if found is None:
        return None
    created, born = pod.metadata.creation_timestamp, found.flow.metadata.creation_timestamp
    if born and created and created < born:
        return None  # of a deleted flow of the same name
    return found if is_selected(found, selection) else None


def is_selected(flow: PlacedFlow, selection: LogSelection) -> bool:
    """Return whether a flow is the one itself, or runs for the selected step or item."""
    # `above` leads to the top, which is not a part of the selection
    below = flow.path[len(selection.above) :]
    if not below or selection.step is None:  # labels select the pods of the flow itself
        return True
    step, _, index = below[0].partition("/")
    is_item = selection.index is None or str(selection.index) == index
    return selection.step == step and is_item


def containers_of(pod: Pod) -> list[str]:
    """Return the names of all containers of a pod, the init containers first."""
    spec = pod.spec
    return [each.name for each in (*(spec.init_containers or ()), *(spec.containers or ()))]


def status_of(pod: Pod, container: str) -> ContainerStatus | None:
    """Return the status of a container; None before the kubelet has written it."""
    return next((each for each in pod.containers if each.name == container), None)


def _has_failed(pod: Pod, container: str) -> bool:
    if (status := status_of(pod, container)) is None:
        return False
    # a container that was restarted has failed in its last state
    ends = (status.state.terminated, status.last_state.terminated)
    return any(end is not None and end.exit_code != 0 for end in ends)


def why_waiting(pod: Pod, container: str) -> str:
    """Return why a container has no log yet, or "" if it has started."""
    status = status_of(pod, container)
    if status is None:
        why = "" if pod.spec.node_name else "no node has been assigned yet"
        if (condition := pod.unscheduled) is not None:
            why = condition.message or condition.reason
        return f"the pod is not scheduled: {why}" if why else "it has not started"
    waiting = status.state.waiting
    # between two restarts, the log of the last run can be read
    if waiting is None or status.last_state.terminated is not None:
        return ""
    return ": ".join(filter(None, (waiting.reason or "it has not started", waiting.message)))


def is_over(flow: JobFlow, selection: LogSelection) -> bool:
    """Whether no further pod of the selection can start."""
    if flow.final or selection.step is None:
        return flow.final
    condition = condition_of(flow, selection.step)
    if condition.phase in ENDED_STEP_PHASES or selection.index is None:
        return condition.phase in ENDED_STEP_PHASES
    run = condition.run_at(selection.index)
    return run is not None and run.phase in ENDED_STEP_PHASES


async def read_family(client: Client, flow: JobFlow, selection: LogSelection) -> FlowFamily:
    """Return the flow, with those below it if the step may have some. Raises CommandError."""
    if not may_have_children(flow, selection.step):
        return FlowFamily(flow, (), selection.above)
    return FlowFamily(flow, (await read_children(client, [flow])).values(), selection.above)


async def list_pods(client: Client, flow: JobFlow, selection: LogSelection) -> list[Pod]:
    """Return the pods that the labels select. Raises CommandError."""
    found: list[Pod] = []
    namespace = flow.metadata.namespace
    try:
        # pods of the flow and of its child flows have no label in common
        for query in pods_queries(flow, selection):
            async for page in client.list(PODS, ItemList[Pod], namespace=namespace, query=query):
                found += page.items or ()
    except ApiError as error:
        check_rights(error, flow)
        raise CommandError(FAILED, error.message) from None
    return found


def check_rights(error: ApiError, flow: JobFlow) -> None:
    """Raise CommandError if the user must not read logs."""
    if error.code == 401:
        raise_unless_missing(error)
    if error.code == 403:
        where = f'in namespace "{flow.metadata.namespace}"'
        needs = f"logs need the rights to list pods and get pods/log {where}"
        raise CommandError(FAILED, f"{needs}: {error.message}") from None


def why_none(
    family: FlowFamily, pods: Sequence[Pod], selection: LogSelection, *, later: str = _LATER
) -> str:
    """Return why the selection has no container, with the nearest name. `later`: how the user gets
    the logs of pods that will start."""
    flow = family.top
    subject = f'step "{selection.step}"' if selection.step else f"JobFlow {flow.metadata.name}"
    if selection.index is not None:
        subject += f", item {selection.index},"
    if not pods:
        return f"{subject} {_why_no_pods(family, selection, later)}"
    for noun, wanted, known in (
        ("pod", selection.pod, [pod.metadata.name for pod in pods]),
        ("task", selection.task, [pod.task for pod in pods]),
        ("container", selection.container, [name for pod in pods for name in containers_of(pod)]),
        ("attempt", selection.attempt, [attempt_of(pod) for pod in pods]),
    ):
        if wanted is not None and wanted not in known:
            names = sorted({*known})
            more = f" and {len(names) - 5} more" if len(names) > 5 else ""
            guess = did_you_mean(Suggester(names).nearest(wanted))
            listed = f": it has {', '.join(names[:5])}{more}"
            return f'{subject} has no {noun} "{wanted}"{guess or listed}'
    if selection.failed:
        return f"no container of {subject} has ended with an error"
    flags = {"--pod": selection.pod, "--task": selection.task, "-c": selection.container}
    given = [f"{flag} {value}" for flag, value in flags.items() if value is not None]
    return f"{subject} has no pod with all of these: {', '.join(given)}"


def _why_no_pods(family: FlowFamily, selection: LogSelection, later: str) -> str:
    flow = family.top
    chosen: RunCondition | None = None
    if selection.step is None:
        phase, message = flow.status.state.phase, flow.status.state.message
    else:
        chosen = condition_of(flow, selection.step)
        chosen = chosen.run_at(selection.index) or chosen
        phase, message = chosen.phase, chosen.message
    ended = is_over(flow, selection)
    runs: dict[str, list[RunCondition]] = {}
    for step in flow.all_steps:
        if selection.step not in (None, step.name):
            continue
        condition = condition_of(flow, step.name)
        work = work_of(step, step.case_of(condition.decisions))
        if work.has_objects:
            every = [condition, *(condition.runs or ())]
            runs[step.name] = every if chosen is None or selection.index is None else [chosen]
        elif selection.step is not None:
            return f"has no pods, because a step that {work.does} runs no job"
    has_started = any(
        run.attempts or run.index is not None for each in runs.values() for run in each
    )
    why = f": {message}" if message else ""
    for child in family.below():
        for step in child.flow.all_steps if is_selected(child, selection) else ():
            condition = condition_of(child.flow, step.name)
            runs[f"{child.prefix}{step.name}"] = [condition, *(condition.runs or ())]
    aborted = _find_abort(family, runs)
    # before the others, because a skipped step may have had jobs before a retry
    if phase == StepPhase.SKIPPED and not aborted:
        return f"has no pods, because it was skipped{why}"
    if not has_started:
        cause = "nothing of it has started" if ended else "it has not started"
        return f"has no pods, because {cause}{why}"
    if not ended:
        return f"has no pods at present; {later}"
    if elsewhere := _ran_elsewhere(flow, runs, selection):
        return elsewhere
    deleted = "has ended, and its pods are deleted"
    if aborted:
        return f"{deleted}: Volcano deletes the pods of a job that is aborted ({aborted})"
    if flow.spec.job_retain_policy == RetainPolicy.DELETE:
        return f"{deleted}: jobRetainPolicy is delete"
    return f"{deleted}, by ttlSecondsAfterFinished or by a user"


def _find_abort(family: FlowFamily, runs: Mapping[str, Sequence[RunCondition]]) -> str:
    """Return the first step with a job that JobFlow has aborted, and why; "" if there is none."""
    flows = (family.top, *(child.flow for child in family.below()))
    # a user may have skipped or given up one whose job had ended
    ended = {
        record.name
        for flow in flows
        for record in flow.status.job_status_list or ()
        if record.state in (JobPhase.FAILED, JobPhase.COMPLETED)
    }
    for name, each in runs.items():
        for run in each:
            if run.reason in _ABORTS and run.attempts and run.job not in ended:
                return f"{name}: {run.reason}"
    return ""


def _ran_elsewhere(
    flow: JobFlow, runs: Mapping[str, Sequence[RunCondition]], selection: LogSelection
) -> str:
    """Return that all the results are those of an earlier flow, and how to read its logs, or ""."""
    with_jobs = [run for each in runs.values() for run in each if run.job and not run.flow]
    source = flow.status.reuse
    if source is None or not with_jobs or any(r.reason != StepReason.REUSED for r in with_jobs):
        return ""
    results, place = "its results are those", ""
    if selection.step is not None:
        # an item may have had another index
        first, _ = split_attempt_name(with_jobs[0].job)
        key = format_job_name(source.flow, selection.step)
        index = None if selection.index is None else read_index(first.removeprefix(f"{key}-"))
        results, place = "its result is that", f" {format_place(selection.step, index)}"
    meta = ObjectMeta(name=source.flow, namespace=flow.metadata.namespace)
    return (
        f"has no pods, because it did not run here: {results} of JobFlow {source.flow}; "
        f"its log: {format_command('jobflow logs', meta, place)}"
    )
