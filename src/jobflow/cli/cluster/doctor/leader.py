"""Check that a replica runs the flows: the holder of the Lease renews it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

from jobflow.api.resources import LEASES
from jobflow.cli.cluster.doctor.cluster import Cluster, Json, Result, fault, ok, warning
from jobflow.cli.cluster.doctor.webhook import find_configurations
from jobflow.core.text import format_elapsed

DEFAULT = "jobflow"
"""Name of the Lease if no configuration of a webhook tells another."""
TOLERANCE = timedelta(seconds=60)
"""Time beyond the duration of a Lease in which another replica takes it over, and by which the
clock of this machine may differ."""
_START = "Check that the replicas of JobFlow run, and that controller.enabled is true."


async def check_leader(cluster: Cluster) -> AsyncIterator[Result]:
    """Check the Lease of each release. The chart gives it the name of the configuration."""
    now = datetime.now(UTC)
    places = [_place(each) for each in await find_configurations(cluster)]
    for namespace, name in places or [("", DEFAULT)]:
        if namespace:
            found = [await cluster.read(LEASES, namespace, name)]
        else:
            query = (("fieldSelector", f"metadata.name={name}"),)
            found = [*await cluster.read_all(LEASES, query=query)]
        for lease in found or [None]:
            yield describe_lease(lease, name, now, by_url=bool(places) and not namespace)


def _place(configuration: Json) -> tuple[str, str]:
    """Return namespace and name of the Lease; the namespace is "" for a webhook at a URL."""
    webhooks = configuration.get("webhooks") or ()
    services = ((each.get("clientConfig") or {}).get("service") or {} for each in webhooks)
    namespace = next((each["namespace"] for each in services if each.get("namespace")), "")
    return namespace, configuration["metadata"]["name"]


def describe_lease(lease: Json | None, name: str, now: datetime, *, by_url: bool) -> Result:
    """Return whether a replica holds the Lease. `by_url`: the replica is outside the cluster, where
    it may run without a Lease."""
    if lease is None and by_url:
        return warning(
            f"There is no Lease {name}, so it is not known whether a replica runs the flows.",
            "This is intended in a sandbox and with --no-leader-election.",
        )
    spec = (lease or {}).get("spec") or {}
    if lease is None or not spec.get("holderIdentity"):
        what = "does not exist" if lease is None else "has no holder"
        return fault(f"The Lease {name} {what}, so no replica runs flows.", _START)
    holder = spec["holderIdentity"]
    duration = timedelta(seconds=spec.get("leaseDurationSeconds") or 0)
    renewed = datetime.fromisoformat(spec.get("renewTime") or "1970-01-01T00:00:00Z")
    if renewed + duration + TOLERANCE < now:
        ago = format_elapsed(renewed, now)
        message = f"{holder} has not renewed the Lease {name} for {ago}, so no replica runs flows."
        return fault(message, _START)
    return ok(f"{holder} leads.")
