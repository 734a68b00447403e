"""New flows that take the results of one that has ended."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeVar

import msgspec

from jobflow.api import labels
from jobflow.api.flow.jobflow import JobFlow, JobTemplate
from jobflow.api.resources import JOBFLOWS, JOBTEMPLATES, VOLUME_CLAIMS, Object, Resource
from jobflow.client.errors import FAILED, CommandError
from jobflow.client.flows.children import read_children
from jobflow.client.flows.find_flow import NoSuchFlow, find_flow, raise_unless_missing
from jobflow.client.manifests.check import Report
from jobflow.client.manifests.flag_values import ReuseChoice, set_generated_name
from jobflow.client.manifests.objects import Manifest
from jobflow.client.verbs.send_manifests import body_of, find_existing
from jobflow.core.manifests.volume_claims import why_spent
from jobflow.core.spec.reuse import find_obstacle
from jobflow.core.text import printable
from jobflow.kube.answers import ItemList
from jobflow.kube.client import ApiError, Client
from jobflow.kube.connections import METADATA_ONLY

if TYPE_CHECKING:  # plans take long to import, and only a preview needs them
    from jobflow.core.planning.virtual_time.reuse import ReusePreview

T = TypeVar("T")
_LONGEST_CHAIN = 20
"""Earlier flows that are read, each of which was reused by the one after it."""


def choice_of(flow: JobFlow, rerun: Sequence[str] = ()) -> ReuseChoice:
    """Return the choice to reuse a flow but for some steps."""
    return ReuseChoice(flow.metadata.name, flow.metadata.uid, rerun)


async def free_name(client: Client, flow: Manifest) -> str:
    """Let the API server make the name of a flow if its own is taken, as that of a corrected file
    is. Return a sentence that says so, or ""."""
    if await find_existing(client, flow) is None:
        return ""
    set_generated_name(flow)
    name = printable(flow.generate_name)
    return f"the name {name[:-1]} is taken, so the new flow is named {name}<random>"


async def preview_reuse(client: Client, report: Report, reuse: ReuseChoice) -> ReusePreview:
    """Return what the only flow of a report would reuse. Raises CommandError, also if the flow that
    it reuses cannot be reused."""
    from jobflow.core.planning.virtual_time.reuse import Templates, preview

    [manifest] = report.flows
    body = body_of(manifest)
    meta = body["metadata"]
    # a name that the API server will make differs from all others too
    name = meta.get("name") or f"{meta['generateName']}xxxxx"
    flow = msgspec.convert({**body, "metadata": {**meta, "name": name}}, JobFlow)
    source = await find_flow(client, reuse.flow, manifest.namespace)
    claims: list[Object] | None = None
    if source.spec.volume_claims is not None:
        claims = await _list_claims(client, manifest.namespace)
        flows = await _read_all(client, JOBFLOWS, JobFlow, manifest.namespace)
        if obstacle := find_obstacle(flow, source, why_spent(source, flows)):
            raise CommandError(FAILED, f"--reuse {reuse.flow}: {obstacle}")
    stored = await _read_all(client, JOBTEMPLATES, JobTemplate, manifest.namespace)
    sent = [msgspec.convert(each.data, JobTemplate) for each in report.templates]
    found = preview(
        flow,
        source,
        await read_children(client, [source]),
        Templates([*stored], [*stored, *sent]),  # of two with a name the later counts
        await _read_earlier(client, source),
        datetime.now(UTC),
        claims,
    )
    if found.refusal:
        raise CommandError(FAILED, found.refusal)
    return replace(found, assumes_claims=claims is None)


async def _read_all(client: Client, resource: Resource, kind: type[T], namespace: str) -> list[T]:
    found: list[T] = []
    try:
        async for page in client.list(resource, ItemList[kind], namespace=namespace):  # type: ignore[valid-type]
            found += page.items or ()
    except ApiError as error:
        raise_unless_missing(error)
    return found


async def _list_claims(client: Client, namespace: str) -> list[Object] | None:
    """Return the volume claims of flows; None if the user may not list them."""
    # one that has moved has the label of the flow that made it, which may be deleted
    query = [("labelSelector", labels.CREATED_BY_FLOW)]
    found: list[Object] = []
    pages = client.list(
        VOLUME_CLAIMS, ItemList[Object], namespace=namespace, query=query, accept=METADATA_ONLY
    )
    try:
        async for page in pages:
            found += page.items or ()
    except ApiError as error:
        if error.code != 403:
            raise_unless_missing(error)
        return None
    return found


async def read_reused(client: Client, flows: Iterable[JobFlow]) -> dict[str, JobFlow]:
    """Return the flows that flows of the client's namespace reuse, as far as they exist, and their
    child flows, by name. Raises CommandError."""
    found: dict[str, JobFlow] = {}
    for name in dict.fromkeys(each.spec.reuse.flow for each in flows if each.spec.reuse):
        with suppress(NoSuchFlow):
            source = await find_flow(client, name)
            found |= {name: source, **await read_children(client, [source])}
    return found


async def _read_earlier(client: Client, source: JobFlow) -> list[JobFlow]:
    """Return the flows that a flow has reused, directly or through others, as far as they exist."""
    found: list[JobFlow] = []
    reuse = source.status.reuse
    while reuse is not None and len(found) < _LONGEST_CHAIN:
        try:
            flow = await find_flow(client, reuse.flow, source.metadata.namespace)
        except NoSuchFlow:
            break
        if flow.metadata.uid != reuse.uid:  # another flow of its name
            break
        found.append(flow)
        reuse = flow.status.reuse
    return found
