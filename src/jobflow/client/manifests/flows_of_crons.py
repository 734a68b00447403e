"""Flows of the CronJobFlows in FILEs, for commands without a schedule: `run`, `plan`, `graph`."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec

from jobflow.api.flow.cronjobflow import CronJobFlow
from jobflow.api.labels import CRON
from jobflow.client.manifests.check import Report
from jobflow.client.manifests.objects import manifest_of
from jobflow.core.cron.flows import build_flow


def add_flows_of_crons(report: Report) -> list[str]:
    """Add a flow of each CronJobFlow to the flows of a report without faults, as if this were a
    scheduled time. Return the names of the CronJobFlows."""
    flows = [*_flows(report)]
    report.flows += [manifest_of(flow) for flow in flows]
    return [flow["metadata"]["annotations"][CRON] for flow in flows]


def _flows(report: Report) -> Iterator[dict[str, Any]]:
    for manifest in report.crons:
        cron = msgspec.convert(manifest.data, CronJobFlow)
        meta = msgspec.structs.replace(
            cron.metadata,
            namespace=manifest.namespace,
            name=manifest.name or manifest.generate_name.rstrip("-."),
        )
        flow = build_flow(msgspec.structs.replace(cron, metadata=meta), datetime.now(UTC))
        del flow["metadata"]["ownerReferences"]  # there is no such CronJobFlow
        spec = manifest.data["spec"]["jobFlowTemplate"]["spec"]
        yield flow | {"spec": spec}
