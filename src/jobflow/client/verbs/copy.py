"""New flows with the spec of an existing flow or of a CronJobFlow."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from jobflow.api.flow.cronjobflow import CronJobFlow
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.labels import SCHEDULED_TIME
from jobflow.api.resources import JOBFLOWS, ObjectMeta
from jobflow.client.errors import FAILED, CommandError
from jobflow.client.flows.find_cron import FoundCron
from jobflow.client.flows.find_flow import to_flow
from jobflow.client.manifests.check import Report, check
from jobflow.client.manifests.flag_values import ReuseChoice, set_params, set_reuse
from jobflow.client.manifests.objects import Manifests, manifest_of
from jobflow.client.manifests.sources import ManifestFault, SourcePlace
from jobflow.client.manifests.yaml_nodes import Node
from jobflow.client.verbs.send_manifests import Sent, send
from jobflow.core.cron import Instantiation, Schedule, ScheduleFault, build_flow, parse_schedule
from jobflow.core.manifests.job import is_inherited
from jobflow.kube.client import Client


def check_copy(
    raw: bytes, values: Mapping[str, Node], name: str | None, reuse: ReuseChoice | None = None
) -> Report:
    """Return the report on a new flow with the spec of another, which is given as JSON."""
    # the spec as it is stored: fields that this version does not know stay
    flow, spec = to_flow(raw), json.loads(raw).get("spec", {})
    return check_flow(copy_of(flow.metadata, spec, name), values, flow.metadata.name, reuse)


async def create_checked(client: Client, report: Report) -> JobFlow:
    """Create the flow of a report of `check_flow`. Raises CommandError with a line for each
    fault."""
    faults, refusals = report.faults, list[str]()
    if not faults:
        sent = await send_checked(client, report)
        faults, refusals = sent.faults, [*sent.missing_rights.values()]
        if not sent.is_refused:
            return sent.created[0]
    raise CommandError(FAILED, "\n".join([*refusals, *(each.sentence for each in faults)]))


def check_flow(
    flow: dict[str, Any],
    values: Mapping[str, Node],
    origin: str,
    reuse: ReuseChoice | None = None,
) -> Report:
    """Return the report on a flow that is no file. `origin`: the object that it was made from."""
    return check_flows([flow], values, [origin], reuse)


def check_flows(
    flows: Sequence[dict[str, Any]],
    values: Mapping[str, Node],
    origins: Sequence[str],
    reuse: ReuseChoice | None = None,
) -> Report:
    """Return the report on flows that are no files. `origins`: the objects that they were made
    from."""
    manifests = [manifest_of(each) for each in flows]
    loaded = Manifests([each.source for each in manifests], manifests)
    if values:
        loaded.flag_warnings = set_params(values, manifests, flows=origins)
    if reuse is not None:
        set_reuse(reuse, manifests[0])
    report = check(loaded)
    report.faults = without_lines(report.faults)
    return report


def without_lines(faults: Iterable[ManifestFault]) -> list[ManifestFault]:
    """Return faults of flows that are no files, whose lines mean nothing."""
    return [replace(fault, place=SourcePlace(fault.place.source)) for fault in faults]


async def send_checked(client: Client, report: Report, *, dry_run: bool = False) -> Sent:
    """Create the flow of a report of `check_flow`. Raises CommandError."""
    sent = await send(client, report, dry_run=dry_run)
    sent.faults = without_lines(sent.faults)
    return sent


def copy_of(meta: ObjectMeta, spec: Any, name: str | None) -> dict[str, Any]:
    """Return the new flow, which reuses nothing. Without `name` it gets a generateName: that of the
    old flow if its name was generated, so that random suffixes do not add up."""
    if name is not None:
        names = {"name": name}
    elif meta.generate_name and meta.name.startswith(meta.generate_name):
        names = {"generateName": meta.generate_name}
    else:
        names = {"generateName": f"{meta.name}-"}
    annotations = _kept(meta.annotations)
    if (scheduled := (meta.annotations or {}).get(SCHEDULED_TIME)) is not None:
        annotations[SCHEDULED_TIME] = scheduled  # expressions may use it
    texts = {"labels": _kept(meta.labels), "annotations": annotations}
    return {
        **JOBFLOWS.type_meta,
        "metadata": {
            **names,
            "namespace": meta.namespace,
            **{key: value for key, value in texts.items() if value},
        },
        "spec": {key: value for key, value in spec.items() if key != "reuse"},
    }


def _kept(texts: dict[str, str] | None) -> dict[str, str]:
    return {key: value for key, value in (texts or {}).items() if is_inherited(key, value)}


def manual_flow(found: FoundCron) -> dict[str, Any]:
    """Return a flow that is created now. Raises CommandError if its time zone is not valid."""
    # its flows get the time in this zone
    schedule_of(found.cron)
    return flow_at(found, datetime.now(UTC), Instantiation.MANUAL)


def schedule_of(cron: CronJobFlow) -> Schedule:
    """Return the schedule of a CronJobFlow. Raises CommandError if it is invalid."""
    try:
        return parse_schedule(cron.spec.schedule or "", cron.spec.time_zone)
    except ScheduleFault as fault:
        why = f"CronJobFlow {cron.metadata.name}: its schedule is invalid: {fault}"
        raise CommandError(FAILED, why) from None


def flow_at(found: FoundCron, time: datetime, instantiation: Instantiation) -> dict[str, Any]:
    """Return the flow of a time, with the spec as the API server has it."""
    flow = build_flow(found.cron, time, instantiation)
    # as it is stored: fields that this version does not know stay
    template = json.loads(bytes(found.raw)).get("spec", {}).get("jobFlowTemplate") or {}
    return flow | {"spec": template.get("spec") or {}}
