"""Commands about a flow, sent as vcctl sends those for vcjobs, and its deletion."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import CANCELLED, ENDED_STEP_PHASES, HALTS, FlowPhase, StepPhase
from jobflow.api.flow.step import Step
from jobflow.api.resources import COMMANDS, JOBFLOWS, Object, ObjectMeta, OwnerReference
from jobflow.api.volcano.command import Action, Command, encoded
from jobflow.client.errors import FAILED, SUCCESS, CommandError, print_error
from jobflow.client.flows.find_flow import state_of
from jobflow.core.explain.remedies import format_submit
from jobflow.core.names import format_job_name, moved_claim_names, root_of
from jobflow.core.planning.lifecycle import BY_PARENTS
from jobflow.core.reasons import FlowReason
from jobflow.core.spec.readiness import has_tolerated_failures
from jobflow.core.text import format_command, join_names
from jobflow.core.work import may_run_steps
from jobflow.kube.client import ApiError, Client, decoder


@dataclass(frozen=True, slots=True)
class Verb:
    """`jobflow cancel`, `suspend` and similar: their Command, and the state to wait for: a
    controller has handled the Command, and that has had its effect."""

    name: str
    """`cancel`, also in `cancel requested`."""
    gerund: str
    action: Action
    refusal: Callable[[JobFlow], str] = lambda flow: ""
    """Returns why it makes no sense for the flow as it is now, or ""."""
    # by default, nobody waits for the effect: so it is with answers and Commands on steps
    handled: Callable[[JobFlow, JobFlow], bool] = lambda before, now: False
    """Compares the flow at the start and now; once true, it stays true."""
    reached: Callable[[JobFlow, Mapping[str, JobFlow]], bool] = lambda flow, children: False
    """Whether the effect has come, once the Command is handled, by the flow and the child flows
    below flows of its namespace, by name."""
    is_lost: Callable[[JobFlow], bool] = lambda flow: flow.final
    """Whether a flow whose Command is not handled can no longer reach the state."""
    exit_code: Callable[[JobFlow], int] = lambda flow: SUCCESS
    """The exit code of `--wait` by the flow that has reached the state."""
    takes_steps: bool = False
    """Whether its command has the flag `--step`."""


def refuse(flow: JobFlow, verb: Verb) -> str:
    """Return why the Command would have no effect on the flow as it is now, or ""."""
    # its finalizers may take a while
    deleted = flow.metadata.deletion_timestamp is not None
    why = "is being deleted" if deleted else verb.refusal(flow)
    return f"JobFlow {flow.metadata.name} {why}" if why else ""


async def send_verb(client: Client, flow: JobFlow, verb: Verb) -> str:
    """Send the Command and return its name. Raises CommandError if it would have no effect."""
    if why := refuse(flow, verb):
        raise CommandError(FAILED, why)
    return await create_command(client, flow, verb)


async def create_command(
    client: Client,
    flow: JobFlow,
    verb: Verb,
    *,
    message: str = "",
    annotations: dict[str, str] | None = None,
) -> str:
    """Create the Command, owned by the flow so that both are deleted together; return its name."""
    meta = flow.metadata
    # with the UID, so that a later flow of the same name is not meant
    target = OwnerReference(
        api_version=JOBFLOWS.api_version, kind=JOBFLOWS.kind, name=meta.name, uid=meta.uid
    )
    command = Command(
        metadata=ObjectMeta(
            generate_name=f"{meta.name}-{verb.action.lower()}-",
            namespace=meta.namespace,
            owner_references=[target],
            annotations=annotations,
        ),
        action=verb.action,
        target=target,
        message=message,
    )
    try:
        created = await client.create(COMMANDS, meta.namespace, encoded(command))
    except ApiError as error:
        why = error.message
        # a webhook says itself what it refuses, also which right is missing
        is_denied = error.message.startswith("admission webhook ")
        if error.code == 403 and not (error.namespace_gone or is_denied):
            needs = f"{verb.gerund} needs the right to create commands.{COMMANDS.group}"
            why = f'{needs} in namespace "{meta.namespace}": {error.message}'
        elif error.code == 404 and not error.namespace_gone:
            lacks = f"this cluster has no Commands ({COMMANDS.api_version})"
            why = f"{lacks}, which {verb.gerund} needs: install Volcano"
        raise CommandError(FAILED, why) from None
    return decoder(Object).decode(created).metadata.name


_IDLE_PHASES = frozenset({*ENDED_STEP_PHASES, StepPhase.WAITING, ""})


def _finished_message(flow: JobFlow) -> str:
    return f"has already finished: {state_of(flow)}" if flow.final else ""


def _cancel_refusal(flow: JobFlow) -> str:
    if why := _cancel_now_refusal(flow):
        return why
    if flow.status.state.reason not in HALTS:
        return ""
    now = format_command("jobflow cancel --now", flow.metadata)
    return f"{_halting(flow)} and its finally has run; {now} cancels finally too"


def _cancel_now_refusal(flow: JobFlow) -> str:
    # it can be cancelled, unless it has finished
    if flow.final or flow.status.state.reason not in HALTS:
        return _finished_message(flow)
    if flow.status.finally_cancelled:
        return f"{_halting(flow)}; its finally is being cancelled too"
    return "" if flow.spec.finally_ else f"{_halting(flow)}; it has no finally"


def _halting(flow: JobFlow) -> str:
    reason = flow.status.state.reason
    verb = "cancelled" if reason == CANCELLED else f"ended ({reason})"
    return f"is already being {verb} and finishes once its jobs have finished"


CANCEL = Verb(
    name="cancel",
    gerund="cancelling",
    action=Action.TERMINATE_JOB,
    refusal=_cancel_refusal,
    handled=lambda before, now: now.status.state.reason == CANCELLED,
    reached=lambda flow, children: flow.final,
    takes_steps=True,
)
CANCEL_NOW = replace(
    CANCEL,
    action=Action.TERMINATE_NOW,
    refusal=_cancel_now_refusal,
    handled=lambda before, now: now.status.finally_cancelled,
)


def _is_suspended(flow: JobFlow) -> bool:
    return not flow.final and flow.status.suspended_at is not None


def _runs_no_job(flow: JobFlow, *, but_flows: bool = False) -> bool:
    """Return whether no vcjob of the flow runs, nor a child flow, unless `but_flows`."""
    steps = {format_job_name(flow.metadata.name, each.name): each for each in flow.all_steps}
    running = (
        key
        for key, condition in (flow.status.conditions or {}).items()
        if condition.phase not in _IDLE_PHASES
    )
    return all(but_flows and key in steps and may_run_steps(steps[key]) for key in running)


def _is_idle(flow: JobFlow, children: Mapping[str, JobFlow]) -> bool:
    below: dict[str, list[JobFlow]] = {}
    for child in children.values():
        if (owner := child.metadata.controller) is not None:
            below.setdefault(owner.uid, []).append(child)

    def is_idle(flow: JobFlow) -> bool:
        # popped, so that a circle of owners ends
        own = below.pop(flow.metadata.uid, ())
        return _runs_no_job(flow, but_flows=True) and all(
            each.final or (_is_suspended(each) and is_idle(each)) for each in own
        )

    return is_idle(flow)


def _suspend_exit_code(flow: JobFlow) -> int:
    if flow.final or _is_suspended(flow):
        return SUCCESS
    print_error(f"JobFlow {flow.metadata.name} was resumed in the meantime")
    return FAILED


def _suspend_refusal(flow: JobFlow) -> str:
    if not _is_suspended(flow):
        return _finished_message(flow)
    abort = format_command("jobflow suspend --abort", flow.metadata)
    running = "" if _runs_no_job(flow) else f", {abort} aborts its jobs"
    resume = format_command("jobflow resume", flow.metadata)
    return f"is already suspended; {resume} resumes it{running}"


def _resume_refusal(flow: JobFlow) -> str:
    phase = flow.status.state.phase
    if phase == FlowPhase.FAILED:
        retry = format_command("jobflow retry", flow.metadata)
        return f"{_finished_message(flow)}; {retry} runs it again"
    # no controller has seen it yet, so its status does not say so
    created_suspended = flow.spec.suspend and not phase
    if _is_suspended(flow) and flow.status.suspended_by in BY_PARENTS:
        resume = format_command("jobflow resume", root_of(flow))
        return f"is suspended because its parent is: {resume} resumes its outermost flow"
    if flow.final or _is_suspended(flow) or created_suspended:
        return _finished_message(flow)
    return f"is not suspended: {state_of(flow)}"


SUSPEND = Verb(
    name="suspend",
    gerund="suspending",
    action=Action.SUSPEND_FLOW,
    refusal=_suspend_refusal,
    handled=lambda before, now: now.status.suspended_at is not None,
    reached=lambda flow, children: not _is_suspended(flow) or _is_idle(flow, children),
    exit_code=_suspend_exit_code,
)
SUSPEND_AND_ABORT = replace(
    SUSPEND,
    action=Action.ABORT_JOB,
    refusal=lambda flow: (
        "" if _is_suspended(flow) and not _runs_no_job(flow) else _suspend_refusal(flow)
    ),
)
RESUME = Verb(
    name="resume",
    gerund="resuming",
    action=Action.RESUME_JOB,
    refusal=_resume_refusal,
    handled=lambda before, now: bool(now.status.state.phase) and not _is_suspended(now),
    reached=lambda flow, children: True,
)


def _retry_refusal(flow: JobFlow, *, tolerated: bool = False) -> str:
    phase = flow.status.state.phase
    if flow.status.state.reason == FlowReason.INVALID:
        submit = f"submit it under another name: {format_submit(flow)}"
        return f"is invalid, and a retry would fail again: correct its file, and {submit}"
    if flow.is_child:
        flag = " --tolerated" if tolerated else ""
        retry = format_command(f"jobflow retry{flag}", root_of(flow))
        return f"is a child flow, which is retried with its outermost flow: {retry}"
    if phase == FlowPhase.FAILED:
        return ""
    if phase == FlowPhase.SUCCEED:
        steps = format_command("jobflow retry", flow.metadata, " --step STEP")
        again = f"{format_command('jobflow resubmit', flow.metadata)} runs its spec once more"
        again += f". {steps} runs only a step, and what was made of it, again"
        if not has_tolerated_failures(flow):
            return f"has succeeded; {again}"
        retry = format_command("jobflow retry --tolerated", flow.metadata)
        which = f"{retry} runs its tolerated failures again"
        return "" if tolerated else f"has succeeded; {which}, {again}"
    if flow.status.suspended_at is not None:
        return f"is suspended; {format_command('jobflow resume', flow.metadata)} resumes it"
    which = "a flow that has ended" if tolerated else "a Failed flow"
    return (
        f"is {state_of(flow)}; only {which} can be retried. "
        f"{format_command('jobflow why', flow.metadata)} explains what it waits for, "
        f"{format_command('jobflow cancel', flow.metadata)} cancels it"
    )


RETRY = Verb(
    name="retry",
    gerund="retrying",
    action=Action.RESTART_JOB,
    refusal=_retry_refusal,
    # a watch may skip versions, so the flow may already have finished again
    handled=lambda before, now: (
        not now.final or now.status.completion_time != before.status.completion_time
    ),
    reached=lambda flow, children: flow.final,
    is_lost=lambda flow: False,
    exit_code=lambda flow: SUCCESS if flow.status.state.phase == FlowPhase.SUCCEED else FAILED,
    takes_steps=True,
)
RETRY_TOLERATED = replace(
    RETRY, action=Action.RETRY_TOLERATED, refusal=partial(_retry_refusal, tolerated=True)
)


def refuse_delete(flow: JobFlow) -> str:
    """Return why a flow that has not ended cannot be deleted, or ""."""
    from jobflow.core.admission.changes import flow_has_ended  # imports schemas: retry needs none

    # the webhook asks the same
    if not any(flow_has_ended(flow)):
        return ""
    meta = flow.metadata
    cancel = format_command("jobflow delete --cancel", meta)
    return f"JobFlow {meta.name} has not ended; {cancel} cancels it first: {state_of(flow)}"


def note_on_delete(flow: JobFlow) -> str:
    """Return the sentence that says which volume claims of an earlier flow are deleted with this
    one, or ""."""
    if not (names := moved_claim_names(flow)) or flow.status.reuse is None:
        return ""
    what, has = ("claim", "has") if len(names) == 1 else ("claims", "have")
    moved = f"which {has} moved to {flow.metadata.name} from the flow {flow.status.reuse.flow}"
    is_ = "is" if len(names) == 1 else "are"
    return f"The volume {what} {join_names(names)}, {moved}, {is_} deleted with it."


async def cancel_first(client: Client, flow: JobFlow) -> str:
    """Cancel the flow, unless it is already coming to its end; return the name of the Command, or
    "". Raises CommandError if that is refused."""
    return "" if CANCEL.refusal(flow) else await create_command(client, flow, CANCEL)


def note_on_cancel(flow: JobFlow) -> str:
    """Return the sentence that says what the deletion of a flow that is cancelled waits for."""
    meta, conditions = flow.metadata, flow.status.conditions or {}

    def phase_of(step: Step) -> str:
        found = conditions.get(format_job_name(meta.name, step.name))
        return found.phase if found is not None else ""

    running = [step.name for step in flow.steps if phase_of(step) not in _IDLE_PHASES]
    last = [
        step.name
        for step in flow.spec.finally_ or ()
        if phase_of(step) not in ENDED_STEP_PHASES and not flow.status.finally_cancelled
    ]
    waits = [f"{join_names(running, shown=5)} to end"] if running else []
    waits += [f"finally ({join_names(last, shown=5)}) to run"] if last else []
    return f"JobFlow {meta.name} is deleted once it has ended: waiting for " + (
        " and for ".join(waits) or "the controller to end it"
    )


async def delete_flow(client: Client, flow: JobFlow) -> None:
    """Delete the flow. Raises CommandError if it is refused, or another one has its name now."""
    meta = flow.metadata
    try:
        await client.delete(JOBFLOWS, meta.namespace, meta.name, uid=meta.uid)
    except ApiError as error:
        why = f"JobFlow {meta.name} was not deleted: {error.message}"
        if error.conflict:  # its UID is another one
            replaced = "was replaced by another of the same name: it was not deleted"
            why = f"JobFlow {meta.name} {replaced}"
        raise CommandError(FAILED, why) from None
