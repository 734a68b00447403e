"""Flows of a CronJobFlow."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from jobflow.api.flow.cronjobflow import CronJobFlow
from jobflow.client.errors import FAILED, CommandError
from jobflow.client.flows.find_cron import FoundCron
from jobflow.core.cron.expression import ScheduleFault
from jobflow.core.cron.flows import Instantiation, build_flow
from jobflow.core.cron.schedule import Schedule, parse_schedule


def manual_flow(found: FoundCron) -> dict[str, Any]:
    """Return a flow that is created now. Raises CommandError if its time zone is not valid."""
    schedule_of(found.cron)
    return flow_at(found, datetime.now(UTC), Instantiation.MANUAL)


def schedule_of(cron: CronJobFlow) -> Schedule:
    """Return the schedule of a CronJobFlow. Raises CommandError if it is invalid."""
    try:
        return parse_schedule(cron.spec.schedule or "", cron.spec.time_zone)
    except ScheduleFault as fault:
        name = cron.metadata.name
        raise CommandError(
            FAILED, f"CronJobFlow {name}: its schedule is invalid: {fault}"
        ) from None


def flow_at(found: FoundCron, time: datetime, instantiation: Instantiation) -> dict[str, Any]:
    """Return the flow of a time, with the spec as the API server has it."""
    flow = build_flow(found.cron, time, instantiation)
    template = json.loads(bytes(found.raw)).get("spec", {}).get("jobFlowTemplate") or {}
    return flow | {"spec": template.get("spec") or {}}
