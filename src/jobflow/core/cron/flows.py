"""The flows of a CronJobFlow: their names and manifests."""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any

import msgspec

from jobflow.api.flow.cronjobflow import CronJobFlow
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.labels import CRON, INSTANTIATE, SCHEDULED_TIME
from jobflow.api.resources import CRONJOBFLOWS, JOBFLOWS, ObjectMeta
from jobflow.core.cron.schedule import minutes_of, parse_zone
from jobflow.core.names import predict_generated_name, to_label_value

_SOME_TIME = "2026-01-01T00:00:00+00:00"


class Instantiation(StrEnum):
    """Who creates a flow, if not the schedule."""

    MANUAL = "manual"
    BACKFILL = "backfill"


def scheduled_name(cron: str, time: datetime) -> str:
    """Return the name of the flow of a scheduled time."""
    # the same for the schedule and a backfill, so that one time has one flow
    return f"{cron}-{minutes_of(time)}"


def manual_prefix(cron: str) -> str:
    """Return the `generateName` of flows that are created by hand."""
    return f"{cron}-manual-"


def build_flow(
    cron: CronJobFlow, time: datetime, instantiation: Instantiation | None = None
) -> dict[str, Any]:
    """Return the manifest of the flow of a scheduled time. A manual flow has a generated name,
    because a time may have several. Raises ScheduleFault for a time zone that does not exist."""
    meta = cron.metadata
    local = time.astimezone(parse_zone(cron.spec.time_zone))
    template = cron.spec.job_flow_template
    own = template.metadata if template is not None else None
    annotations = {CRON: meta.name, SCHEDULED_TIME: format_scheduled_time(local)}
    if instantiation is not None:
        annotations[INSTANTIATE] = str(instantiation)
    names = {"name": scheduled_name(meta.name, time)}
    if instantiation is Instantiation.MANUAL:
        names = {"generateName": manual_prefix(meta.name)}
    return {
        "apiVersion": JOBFLOWS.api_version,
        "kind": JOBFLOWS.kind,
        "metadata": {
            **names,
            "namespace": meta.namespace,
            "labels": {**_of(own, "labels"), CRON: to_label_value(meta.name)},
            "annotations": {**_of(own, "annotations"), **annotations},
            "ownerReferences": [CRONJOBFLOWS.owner_reference(meta)],
        },
        "spec": msgspec.to_builtins(cron.flow_spec),
    }


def sample_flow(cron: CronJobFlow) -> JobFlow:
    """Return a flow as admission judges it: with the longest name and some scheduled time."""
    meta = cron.metadata
    name = meta.name or predict_generated_name(meta.generate_name)
    return JobFlow(
        metadata=ObjectMeta(
            # the longest one: made by hand, with characters that an API server appends
            name=f"{manual_prefix(name)}xxxxx" if name else "",
            namespace=meta.namespace,
            annotations={SCHEDULED_TIME: _SOME_TIME},
        ),
        spec=cron.flow_spec,
    )


def belongs_to(flow: JobFlow, cron: ObjectMeta) -> bool:
    """Whether the CronJobFlow with this metadata controls a flow."""
    # not only by the UID: the webhook checks the rights of who adds a flow by kind and name
    owner = flow.metadata.controller
    owned_by = owner is not None and (owner.kind, owner.name, owner.uid)
    return owned_by == (CRONJOBFLOWS.kind, cron.name, cron.uid)


def is_scheduled(flow: JobFlow) -> bool:
    """Whether the schedule has created a flow, which then counts for its concurrency policy."""
    return INSTANTIATE not in (flow.metadata.annotations or {})


def is_backfilled(flow: JobFlow) -> bool:
    """Whether `jobflow backfill` has created a flow, which the history limits keep."""
    # the same backfill would create it again
    return (flow.metadata.annotations or {}).get(INSTANTIATE) == Instantiation.BACKFILL


def format_scheduled_time(time: datetime) -> str:
    """Return RFC 3339, as `batch/v1` writes it: `2026-01-01T02:00:00+01:00`, Z for UTC."""
    return time.isoformat(timespec="seconds").replace("+00:00", "Z")


def _of(own: msgspec.Struct | None, field: str) -> Mapping[str, str]:
    return getattr(own, field, None) or {}
