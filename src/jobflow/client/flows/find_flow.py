"""The JobFlows that a command names or selects, and the errors that prevent reading them."""

from collections.abc import Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from jobflow.api import labels
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import FlowPhase
from jobflow.api.flow.step import Step
from jobflow.api.nesting import MAX_DEPTH
from jobflow.api.resources import FLOW_GROUP, JOBFLOWS, NAMESPACES, Object, Resource
from jobflow.client.errors import FAILED, UNUSABLE, CommandError, Errors
from jobflow.client.options import Connection, Selection
from jobflow.core.admission.object_names import all_names
from jobflow.core.names import format_place
from jobflow.core.suggest import Suggester, did_you_mean
from jobflow.core.text import format_command
from jobflow.kube.answers import ItemList, RawList
from jobflow.kube.cache import key_of
from jobflow.kube.client import ApiError, Client, Query, UnreadableAnswer, decoder
from jobflow.kube.connections import METADATA_ONLY

T = TypeVar("T")
NO_SELECTION = Selection()
NOT_INSTALLED = "this cluster has no JobFlows: install them with `jobflow crds --apply`"


@dataclass(frozen=True, slots=True)
class FoundFlow:
    """A flow, and its JSON as the API server has it."""

    flow: JobFlow
    raw: bytes | msgspec.Raw


class NoSuchFlow(CommandError):
    """A name that no JobFlow of the namespace has."""


PREFIXES = frozenset(
    {"jf", "jobflow", "jobflows", f"jobflow.{FLOW_GROUP}", f"jobflows.{FLOW_GROUP}"}
)


async def connect(options: Connection, *, is_brief: bool = True) -> Client:
    """Return a client for the cluster, namespace and user of the flags. `is_brief`: few requests
    follow. Raises ConfigError."""
    return await Client.from_kubeconfig(
        options.kubeconfig,
        namespace=options.namespace,
        context=options.context,
        impersonate=options.impersonate,
        is_brief=is_brief,
    )


def unique_names(names: Iterable[str]) -> list[str]:
    """Return one name for each flow: `train` and `jf/train` are the same."""
    split = ((name, *name.rpartition("/")) for name in names)
    bare = (rest if prefix in PREFIXES else name for name, prefix, _, rest in split)
    return [*dict.fromkeys(bare)]


async def find_flow(client: Client, name: str, namespace: str | None = None) -> JobFlow:
    """Return a flow of the client's namespace, or of another one. Raises CommandError."""
    return to_flow(await read_flow(client, name, namespace))


async def find_outermost(client: Client, flow: JobFlow) -> tuple[JobFlow, str]:
    """Return the outermost flow of a flow, and the path from it to the steps of this one:
    `samples/3/`, or "" if they are the same. Raises CommandError."""
    path = ""
    for _ in range(MAX_DEPTH):  # by hand, somebody may make a flow its own owner
        parent = flow.metadata.controller
        if parent is None or not flow.is_child:
            break
        own = flow.metadata.annotations or {}
        path = f"{format_place(own.get(labels.STEP, ''), own.get(labels.INDEX))}/{path}"
        flow = await find_flow(client, parent.name, flow.metadata.namespace)
    return flow, path


def to_flow(raw: bytes | msgspec.Raw) -> JobFlow:
    """Decode a flow. Raises CommandError."""
    try:
        return decoder(JobFlow).decode(raw)
    except UnreadableAnswer as error:
        raise CommandError(FAILED, error.message) from None


async def read_flow(client: Client, name: str, namespace: str | None = None) -> bytes:
    """Return the flow `train`, `jf/train` or `jobflow.flow.volcano.sh/train` of the client's
    namespace, or of another one, as JSON of the API server. Raises CommandError; it is NoSuchFlow,
    with the nearest name, if the flow does not exist."""
    prefix, slash, bare = name.rpartition("/")
    if slash and prefix not in PREFIXES:
        raise NoSuchFlow(UNUSABLE, f'"{name}" is not a JobFlow: write {bare} or jf/{bare}')
    name, namespace = bare, namespace or client.namespace
    missing = f'JobFlow "{name}" does not exist in namespace "{namespace}"'
    # no object can have it, and it must not change the path of the request
    if not all_names([name, namespace]):
        raise NoSuchFlow(UNUSABLE, missing)
    try:
        return await client.request("GET", JOBFLOWS.path(namespace, name))
    except ApiError as error:
        raise_unless_missing(error)
    is_here = namespace == client.namespace
    guess = await guess_name(client, JOBFLOWS, name) if is_here else ""
    raise NoSuchFlow(UNUSABLE, missing + guess)


async def find_named(
    client: Client, names: Sequence[str], errors: Errors, *, step_verb: str = ""
) -> list[FoundFlow]:
    """Return the named flows. Errors about single flows are added to `errors`. Raises CommandError
    if a word is not the name of a flow: `cancel train sweep/2` must not cancel the flow `train`.
    `step_verb`: the verb, if its command has the flag `--step`."""
    found: list[FoundFlow] = []
    missing: list[tuple[str, CommandError]] = []
    for name in unique_names(names):
        try:
            raw = await read_flow(client, name)
            found.append(FoundFlow(to_flow(raw), raw))
        except NoSuchFlow as error:
            missing.append((name, error))
        except CommandError as error:
            errors.add(error)
    # by the name of a step, the first flow that has one
    owners = {step.name: each.flow for each in reversed(found) for step in each.flow.all_steps}
    faults, is_ambiguous = list[CommandError](), False
    for name, unknown in missing:
        step = name.partition("/")[0]
        is_ambiguous |= step in owners or "/" in name
        if (owner := owners.get(step)) is None:
            faults.append(unknown)
            continue
        meta = owner.metadata
        if step_verb:
            outermost, above = await find_outermost(client, owner)
            flag = f" --step {above}{name}"
            ways = format_command(f"jobflow {step_verb}", outermost.metadata, flag)
        else:
            why = format_command("jobflow why", meta, f" {step}")
            ways = f"{why} or {format_command('jobflow logs', meta, f' {name}')}"
        sentence = f'"{name}" is a step of JobFlow {meta.name}: write {ways}'
        faults.append(CommandError(UNUSABLE, sentence))
    if is_ambiguous:
        # the words before it may be meant otherwise too: nothing must happen to those flows
        raise CommandError(UNUSABLE, "\n".join(map(str, faults)))
    for fault in faults:
        errors.add(fault)
    return found


def find_step(flow: JobFlow, text: str) -> tuple[Step, str | None]:
    """Return the step of `STEP` or `STEP/INDEX`, and the text of the index. Raises CommandError
    if there is no such step, or it has no items."""
    name, slash, number = text.partition("/")
    steps = {each.name: each for each in flow.all_steps}
    if (step := steps.get(name)) is None:
        guess = did_you_mean(Suggester([*steps]).nearest(name))
        unknown = f'JobFlow {flow.metadata.name} has no step "{name}"{guess}'
        raise CommandError(UNUSABLE, unknown)
    if slash and step.fan_out is None and step.repeat is None:
        why = f'step "{name}" has no items, because it has no forEach or repeat: write {name}'
        raise CommandError(UNUSABLE, why)
    return step, number if slash else None


def find_item(flow: JobFlow, text: str) -> tuple[Step, int | None]:
    """Return the step of `STEP` or `STEP/INDEX`, and the index, which has a run or an item. Raises
    CommandError."""
    step, number = find_step(flow, text)
    if number is None:
        return step, None
    from jobflow.core.explain.item import describe_unknown_item  # imports the planner

    if unknown := describe_unknown_item(flow, step, number):
        raise CommandError(UNUSABLE, unknown)
    return step, int(number)


async def find_each(
    client: Client,
    names: Sequence[str],
    selection: Selection,
    errors: Errors,
    *,
    step_verb: str = "",
) -> list[JobFlow]:
    """Return the named flows, or else all that the flags select. Errors about single names are
    added to `errors`. Raises CommandError if nothing is named or selected. `step_verb`: the verb,
    if its command has the flag `--step`."""
    check_exclusive(names, selection)
    if names:
        found = await find_named(client, names, errors, step_verb=step_verb)
        return [each.flow for each in found]
    if not selection.selector:
        raise CommandError(UNUSABLE, "no flow is named: give a FLOW, or select flows with -l")
    if not (selected := await find_flows(client, selection)):
        where = describe_place(client, selection)
        raise CommandError(UNUSABLE, f"no JobFlow {where} matches -l {selection.selector}")
    return selected


def describe_place(client: Client, selection: Selection) -> str:
    """Return `in namespace "team"` or `in any namespace`."""
    return "in any namespace" if selection.all_namespaces else f'in namespace "{client.namespace}"'


def check_exclusive(names: Sequence[str], selection: Selection) -> None:
    """Raise CommandError if there are both names and a selection."""
    # `delete train -l team=x` could mean both
    if names and selection != NO_SELECTION:
        raise CommandError(UNUSABLE, "a FLOW excludes -l and -A: give names or a selection")


async def find_flows(client: Client, selection: Selection = NO_SELECTION) -> list[JobFlow]:
    """Return the selected flows, by name. Raises CommandError."""
    return sorted(map(to_flow, await read_flows(client, selection)), key=key_of)


async def read_flows(client: Client, selection: Selection) -> list[msgspec.Raw]:
    """Return the selected flows as JSON of the API server. Raises CommandError."""
    try:
        return await list_selected(client, JOBFLOWS, selection)
    except ApiError as error:
        raise_unless_missing(error)
        raise CommandError(UNUSABLE, NOT_INSTALLED) from None


async def list_selected(
    client: Client, resource: Resource, selection: Selection
) -> list[msgspec.Raw]:
    """Return the selected objects as JSON of the API server. Raises ApiError."""
    query = [("labelSelector", selection.selector)] if selection.selector else []
    namespace = "" if selection.all_namespaces else client.namespace
    pages = client.list(resource, RawList, namespace=namespace, query=query)
    return [item async for page in pages for item in page.items or ()]


async def check_namespace(client: Client, selection: Selection) -> None:
    """Raise CommandError if the namespace of the selection does not exist, if that may be read."""
    if selection.all_namespaces:
        return
    try:
        await client.request("GET", NAMESPACES.path("", client.namespace))
    except ApiError as error:
        if error.not_found and error.status.details and error.status.details.name:
            missing = f'namespace "{client.namespace}" does not exist'
            raise CommandError(UNUSABLE, missing) from None
        if error.code != 403:
            raise CommandError(FAILED, error.message) from None


def raise_unless_missing(error: ApiError) -> None:
    """Raise the CommandError for an error about flows, unless an object is missing."""
    details = error.status.details
    if error.code == 401:
        expired = "the cluster does not accept your login (401): log in again, then retry"
        raise CommandError(UNUSABLE, expired) from None
    # without a name, the kind itself is missing
    if error.not_found and not (details and details.name):
        raise CommandError(UNUSABLE, NOT_INSTALLED) from None
    if error.code == 403:
        needs = "reading JobFlows here needs the role view, which an administrator can bind"
        raise CommandError(FAILED, f"{needs}: {error.message}") from None
    if not error.not_found:
        raise CommandError(FAILED, error.message) from None


async def first_names(client: Client, resource: Resource) -> list[str]:
    """Return the names on the first page of objects of the client's namespace. Raises ApiError."""
    items = await first_page(client, resource, Object, accept=METADATA_ONLY)
    return [item.metadata.name for item in items]


async def first_page(
    client: Client, resource: Resource, kind: type[T], *, query: Query = (), accept: str = ""
) -> Sequence[T]:
    """Return the first page of objects of the client's namespace. Raises ApiError."""
    list_of: Any = ItemList[kind]  # type: ignore[valid-type]
    pages = client.list(resource, list_of, namespace=client.namespace, query=query, accept=accept)
    # a list that is left open would hold its connection
    async with aclosing(pages):
        async for page in pages:
            return page.items or ()
    return ()


async def guess_name(client: Client, resource: Resource, name: str) -> str:
    """Return `; did you mean "train"?`, or "" if no name is similar."""
    try:
        return did_you_mean(Suggester(await first_names(client, resource)).nearest(name))
    except ApiError:  # a guess is optional: many users may read a flow but not list them
        return ""


def state_of(flow: JobFlow) -> str:
    """`Running, 2/5 steps finished (Cancelled): the flow was cancelled`."""
    status = flow.status
    text = status.state.phase or FlowPhase.PENDING.value
    if status.progress:
        text += f", {status.progress} steps finished"
    if status.state.reason:
        text += f" ({status.state.reason})"
    return f"{text}: {status.state.message}" if status.state.message else text
