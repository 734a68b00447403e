"""A Command about a flow, sent as vcctl sends those for vcjobs; the controller handles it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.resources import COMMANDS, JOBFLOWS, Object, ObjectMeta, OwnerReference
from jobflow.api.volcano.command import Action, Command, encoded
from jobflow.client.errors import FAILED, SUCCESS, CommandError
from jobflow.kube.client import ApiError, Client, decoder


@dataclass(frozen=True, slots=True)
class Goal:
    """The state to wait for: a controller has handled the Command, and that has had its effect."""

    handled: Callable[[JobFlow, JobFlow], bool]
    """Compares the flow at the start and now; once true, it stays true."""
    reached: Callable[[JobFlow, Mapping[str, JobFlow]], bool]
    """Whether the effect has come, once the Command is handled, by the flow and the child flows
    below flows of its namespace, by name."""
    is_lost: Callable[[JobFlow], bool] = lambda flow: flow.final
    """Whether a flow whose Command is not handled can no longer reach the goal."""


@dataclass(frozen=True, slots=True)
class Verb:
    """`jobflow cancel`, `suspend` and similar: their Command, refusal and goal."""

    name: str
    """`cancel`, also in `cancel requested`."""
    gerund: str
    """`cancelling`."""
    action: Action
    refusal: Callable[[JobFlow], str]
    """Returns why it makes no sense for the flow as it is now, or ""."""
    goal: Goal
    exit_code: Callable[[JobFlow], int] = lambda flow: SUCCESS
    """The exit code of `--wait` by the flow that has reached the goal."""


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
        if error.code == 403 and not error.namespace_gone:
            needs = f"{verb.gerund} needs the right to create commands.{COMMANDS.group}"
            why = f'{needs} in namespace "{meta.namespace}": {error.message}'
        elif error.code == 404 and not error.namespace_gone:
            lacks = f"this cluster has no Commands ({COMMANDS.api_version})"
            why = f"{lacks}, which {verb.gerund} needs: install Volcano"
        raise CommandError(FAILED, why) from None
    return decoder(Object).decode(created).metadata.name
