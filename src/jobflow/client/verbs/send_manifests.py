"""Manifests sent to a cluster: templates and CronJobFlows by server-side apply, flows by create."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import FlowPhase, FlowState
from jobflow.api.kinds import KINDS
from jobflow.api.resources import JOBFLOWS, ObjectMeta
from jobflow.client.errors import UNUSABLE, CommandError
from jobflow.client.flows.find_flow import raise_unless_missing
from jobflow.client.manifests.check import Report
from jobflow.client.manifests.objects import Manifest, faults_of
from jobflow.client.manifests.sources import ManifestFault
from jobflow.core.admission.object_names import all_names
from jobflow.core.reasons import FlowReason
from jobflow.core.text import format_command
from jobflow.kube.client import ApiError, Client
from jobflow.runtime.event_loop import each_of

FIELD_MANAGER = "jobflow"
APPLY = "application/apply-patch+yaml"
_CONCURRENCY = 20
_FIELD_CONFLICT = "FieldManagerConflict"
_OF_THE_SERVER = frozenset({"managedFields", "resourceVersion", "generation"})
"""Fields of the metadata that an apply may change although the user's object stays as it was."""


@dataclass(frozen=True, slots=True)
class Applied:
    """A template or a CronJobFlow as the server stored it."""

    object: dict[str, Any]
    change: str = "applied"
    """created, configured or unchanged, as kubectl says; applied if that is not known."""


@dataclass(slots=True)
class Sent:
    """The objects as the server stored them, and what it said about them."""

    applied: list[Applied] = field(default_factory=list)
    """Templates, then CronJobFlows."""
    flows: list[dict[str, Any]] = field(default_factory=list)
    faults: list[ManifestFault] = field(default_factory=list)
    missing_rights: dict[tuple[str, str], str] = field(default_factory=dict)
    """A sentence for each kind and namespace of which the user may send no object."""
    warnings: list[str] = field(default_factory=list)

    @property
    def is_refused(self) -> bool:
        return bool(self.faults or self.missing_rights)

    @property
    def created(self) -> list[JobFlow]:
        return [msgspec.convert(flow, JobFlow) for flow in self.flows]


def body_of(manifest: Manifest) -> dict[str, Any]:
    """Return the object to send, with its namespace."""
    metadata = manifest.data.get("metadata") or {}
    return {**manifest.data, "metadata": {**metadata, "namespace": manifest.namespace}}


async def send(client: Client, report: Report, *, dry_run: bool = False) -> Sent:
    """Apply templates, then CronJobFlows, then create flows. Nothing is sent if a flow exists, and
    only templates if one of them is refused. Raises CommandError if a kind is not installed."""
    sent = Sent()
    # first, because templates that have changed would concern the flow that runs
    for manifest in report.flows:
        if flow := await find_existing(client, manifest):
            sent.faults.append(_exists(manifest, flow, has_templates=bool(report.templates)))
    if sent.faults:
        return sent
    sender = _Sender(client, sent, [("dryRun", "All")] if dry_run else [])
    # flows need their templates, and a schedule may be due at once
    for manifests in (report.templates, report.crons):
        if sent.is_refused:
            break
        answers = await each_of(sender.apply, manifests, at_once=_CONCURRENCY)
        for manifest, answer in zip(manifests, answers, strict=True):
            if isinstance(answer, Applied):
                sent.applied.append(answer)
            else:
                _note_refusal(sent, manifest, answer)
    if not sent.is_refused:
        # one after another, so that they start in the order of FILEs
        created = [await sender.create(manifest) for manifest in report.flows]
        sent.flows += [each for each in created if each is not None]
    return sent


async def find_existing(client: Client, manifest: Manifest) -> JobFlow | None:
    """Return the flow that has the name of this one, as far as the user may know. Raises
    CommandError."""
    if all_names([manifest.name, manifest.namespace]):  # else it has a fault, or a generateName
        try:
            return await client.get(JOBFLOWS, manifest.namespace, manifest.name, JobFlow)
        except ApiError as error:
            if error.code != 403:  # a user may be allowed to create flows but not to read them
                raise_unless_missing(error)
    return None


@dataclass(frozen=True, slots=True)
class _Sender:
    client: Client
    sent: Sent
    options: Sequence[tuple[str, str]]

    async def apply(self, manifest: Manifest) -> Applied | ApiError:
        """Apply an object; return the error if it is refused."""
        resource = KINDS[str(manifest.kind)].resource
        path = resource.path(manifest.namespace, manifest.name)
        try:
            # an apply does not say whether it has changed anything
            before = await self._read(path)
            stored = await self._send("PATCH", path, manifest, content_type=APPLY)
        except ApiError as error:
            return error
        if before is None:
            return Applied(stored)
        if not before:
            return Applied(stored, "created")
        is_same = _of_the_user(before) == _of_the_user(stored)
        return Applied(stored, "unchanged" if is_same else "configured")

    async def _read(self, path: str) -> dict[str, Any] | None:
        """Return the stored object, empty if there is none; None if it may not be read."""
        try:
            stored: dict[str, Any] = json.loads(await self.client.request("GET", path))
        except ApiError as error:
            if error.not_found:  # if the kind or the namespace is missing, the apply says so
                return {}
            if error.code == 403:  # a user may be allowed to apply objects but not to read them
                return None
            raise
        return stored

    async def create(self, manifest: Manifest) -> dict[str, Any] | None:
        try:
            return await self._send("POST", JOBFLOWS.path(manifest.namespace), manifest)
        except ApiError as error:
            if error.already_exists:
                self.sent.faults.append(_exists(manifest))
            else:
                _note_refusal(self.sent, manifest, error)
        return None

    async def _send(
        self, method: str, path: str, manifest: Manifest, content_type: str = "application/json"
    ) -> dict[str, Any]:
        warnings: list[str] = []
        try:
            stored: dict[str, Any] = json.loads(
                await self.client.request(
                    method,
                    path,
                    query=[("fieldManager", FIELD_MANAGER), *self.options],
                    body=msgspec.json.encode(body_of(manifest)),
                    content_type=content_type,
                    warnings=warnings,
                )
            )
        finally:
            self.sent.warnings += (each for each in warnings if each not in self.sent.warnings)
        # longer than the object, and nobody reads them
        stored["metadata"].pop("managedFields", None)
        return stored


def _of_the_user(obj: dict[str, Any]) -> dict[str, Any]:
    metadata = obj["metadata"].items()
    kept = {key: value for key, value in metadata if key not in _OF_THE_SERVER}
    return {key: value for key, value in obj.items() if key != "status"} | {"metadata": kept}


def _exists(
    manifest: Manifest, existing: JobFlow | None = None, *, has_templates: bool = False
) -> ManifestFault:
    """`existing`: the flow of this name, if it can be read. `has_templates`: FILEs have templates
    that were not sent."""
    flow = msgspec.convert(body_of(manifest)["metadata"], ObjectMeta)
    state = existing.status.state if existing is not None else FlowState()
    ways = ["--name NAME gives this one another name"]
    if state.reason != FlowReason.INVALID:  # else it would fail again
        resubmit = format_command("jobflow resubmit", flow)
        ways.insert(0, f"{resubmit} runs its spec again as a new flow")
        if existing is not None and existing.final:
            reuse = format_command("jobflow submit FILE --reuse", flow)
            ways.insert(0, f"{reuse} runs only what has changed, in a new flow")
        if state.phase == FlowPhase.FAILED:
            ways.insert(0, f"{format_command('jobflow retry', flow)} runs its failed steps again")
        if has_templates:
            ways.insert(0, "`jobflow submit FILE --templates` changes its templates")
    cancel = " --cancel" if existing is not None and not existing.final else ""
    ways.append(f"{format_command(f'jobflow delete{cancel}', flow)} removes the old one")
    phase = f" ({state.phase or FlowPhase.PENDING})" if existing is not None else ""
    where = f'already exists in namespace "{flow.namespace}"{phase}'
    message = f'JobFlow "{flow.name}" {where}: {", ".join(ways)}'
    place = manifest.place("metadata.name")
    return ManifestFault(place, "AlreadyExists", message, "", JOBFLOWS.kind, manifest.name)


def _note_refusal(sent: Sent, manifest: Manifest, error: ApiError) -> None:
    """Add the faults of a refused object, or the right that is missing for all objects of its kind.
    Raises CommandError for another error that is not about the object."""
    if error.lacks_right:
        kind, namespace = str(manifest.kind), manifest.namespace
        needs = f'sending {kind}s to namespace "{namespace}" needs the role edit'
        sentence = f"{needs}, which an administrator can bind: {error.message}"
        sent.missing_rights.setdefault((kind, namespace), sentence)
        return
    if error.namespace_gone and error.not_found:
        namespace = manifest.namespace
        create = f"create it with `kubectl create namespace {namespace}`"
        raise CommandError(UNUSABLE, f'namespace "{namespace}" does not exist: {create}')
    if error.not_found or error.code == 401:
        raise_unless_missing(error)
    for fault in faults_of(manifest, error.status):
        if fault.reason == _FIELD_CONFLICT:
            take_over = (
                "apply the file with that tool, or take the field over with `kubectl apply "
                f"--server-side --force-conflicts --field-manager={FIELD_MANAGER} -f FILE`"
            )
            sent.faults.append(replace(fault, message=f"{fault.message}: {take_over}"))
        else:
            sent.faults.append(fault)
