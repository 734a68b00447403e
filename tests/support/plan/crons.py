"""CronJobFlows that are due each hour, their flows, and plans until the status is written."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from msgspec.structs import replace

from jobflow.api.flow.cronjobflow import CronJobFlow
from jobflow.api.flow.jobflow import JobFlow
from jobflow.core.cron import Instantiation, build_flow, scheduled_name
from jobflow.core.planning.cron import CreateFlow, CronPlan, plan_cron

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)


def cron(
    created: datetime = NOON, schedule: str = "0 * * * *", status: Any = None, **spec: Any
) -> CronJobFlow:
    """Return a CronJobFlow that is due each hour. Keyword arguments are fields of its spec."""
    template = {"spec": {"flows": [{"name": "a"}]}}
    manifest = {
        "metadata": {"name": "c", "namespace": "n", "uid": "u", "creationTimestamp": str(created)},
        "spec": {"schedule": schedule, "jobFlowTemplate": template, **spec},
        "status": status or {},
    }
    return msgspec.convert(manifest, CronJobFlow)


def flow(
    subject: CronJobFlow,
    time: datetime,
    phase: str = "Running",
    *,
    by: Instantiation | None = None,
    **status: Any,
) -> JobFlow:
    """Return the flow of a scheduled time as the API server has it, 30 minutes after its start if
    it has ended."""
    made = build_flow(subject, time, by)
    name = made["metadata"].get("name") or f"c-manual-{time:%H%M}"
    made["metadata"] |= {"name": name, "uid": f"uid-{name}", "creationTimestamp": str(time)}
    ended = {"completionTime": str(time + 30 * MINUTE)} if phase in ("Succeed", "Failed") else {}
    state = {"phase": phase, "reason": status.pop("reason", "")}
    made["status"] = {"state": state, "startTime": str(time), **ended}
    return msgspec.convert(made, JobFlow)


def settled(
    subject: CronJobFlow, flows: Sequence[JobFlow], now: datetime
) -> tuple[CronJobFlow, CronPlan]:
    """Write statuses until the plan has nothing to write; return the CronJobFlow and that plan."""
    for _ in range(5):
        plan = plan_cron(subject, flows, now)
        if plan.status == subject.status:
            return subject, plan
        subject = replace(subject, status=plan.status)
    raise AssertionError("the status changes with each plan")


def created(plan: CronPlan) -> list[str]:
    return [action.name for action in plan.actions if isinstance(action, CreateFlow)]


def notices(plan: CronPlan) -> list[str]:
    return [event.reason for event in plan.notices]


def name_of(hours: float) -> str:
    return scheduled_name("c", NOON + hours * HOUR)
