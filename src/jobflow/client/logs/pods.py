"""The pods whose logs are read, the rights that this needs, and why there may be none."""

from collections.abc import Sequence

from jobflow.api.flow.jobflow import JobFlow, RetainPolicy
from jobflow.api.flow.status import CANCELLED, ENDED_STEP_PHASES, TIMEOUT, StepCondition, StepPhase
from jobflow.api.resources import PODS
from jobflow.api.volcano.pod import Pod
from jobflow.client.conditions import condition_of
from jobflow.client.errors import FAILED, CommandError
from jobflow.client.flows.children import FlowFamily, may_have_children, read_children
from jobflow.client.flows.find_flow import raise_unless_missing
from jobflow.client.logs import selection as selecting
from jobflow.client.logs.selection import LogSelection, attempt_of, containers_of
from jobflow.core.reasons import StepReason
from jobflow.core.suggest import Suggester, did_you_mean
from jobflow.kube.answers import ItemList
from jobflow.kube.client import ApiError, Client

ALL = LogSelection()
_ABORTS = frozenset(
    {CANCELLED, TIMEOUT, StepReason.FAILURE_POLICY, StepReason.DAEMON_ENDED, StepReason.SUSPENDED}
)
"""Reasons for which JobFlow aborts a job, whose pods Volcano then deletes."""
_LATER = "-f shows the logs of those that will start"


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
        for query in selecting.pods_queries(flow, selection):
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
        needed = (
            f'the rights to list pods and get pods/log in namespace "{flow.metadata.namespace}"'
        )
        raise CommandError(FAILED, f"logs need {needed}: {error.message}") from None


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
        (
            "container",
            selection.container,
            [name for pod in pods for name in containers_of(pod)],
        ),
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
    if selection.step is None:
        state, ended = flow.status.state, flow.final
        phase, message = state.phase, state.message
        conditions = {step.name: condition_of(flow, step.name) for step in flow.all_steps}
    else:
        condition = condition_of(flow, selection.step)
        phase, message = condition.phase, condition.message
        ended, conditions = phase in ENDED_STEP_PHASES, {selection.step: condition}
    started = any(each.attempts or each.runs for each in conditions.values())
    why = f": {message}" if message else ""
    # first, because a skipped step may have had jobs before a retry
    if phase == StepPhase.SKIPPED:
        return f"has no pods, because it was skipped{why}"
    if not started:
        cause = "nothing of it has started" if ended else "it has not started"
        return f"has no pods, because {cause}{why}"
    if not ended:
        return f"has no pods at present; {later}"
    return f"has ended, and its pods are deleted{_who_deleted(family, selection, conditions)}"


def _who_deleted(
    family: FlowFamily, selection: LogSelection, conditions: dict[str, StepCondition]
) -> str:
    below = {
        f"{child.prefix}{step.name}": condition_of(child.flow, step.name)
        for child in family.below()
        if selecting.is_selected(child, selection)
        for step in child.flow.all_steps
    }
    for name, condition in (conditions | below).items():
        runs = [condition, *(condition.runs or ())]
        reason = next((run.reason for run in runs if run.reason in _ABORTS), "")
        if reason:
            return f": Volcano deletes the pods of a job that is aborted ({name}: {reason})"
    if family.top.spec.job_retain_policy == RetainPolicy.DELETE:
        return ": jobRetainPolicy is delete"
    return ", by ttlSecondsAfterFinished or by a user"
