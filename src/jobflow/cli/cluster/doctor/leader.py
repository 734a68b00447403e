"""Checks that a replica runs the flows, which holds the Lease and renews it, and of the clocks."""

from collections.abc import AsyncIterator
from datetime import datetime, timedelta

from jobflow.api.resources import LEASES
from jobflow.cli.cluster.doctor.reading import Cluster, Json, Result, fault, name_of, ok, warning
from jobflow.cli.cluster.doctor.webhook import find_configurations, find_service
from jobflow.core.text import format_elapsed
from jobflow.kube.clock import LARGE_OFFSET

DEFAULT = "jobflow"
"""Name of the Lease if no configuration of a webhook tells another."""
TOLERANCE = timedelta(seconds=60)
"""Time beyond the duration of a Lease in which another replica takes it over, and by which the
clock of the last holder may differ."""
_SYNCHRONIZE = (
    "Synchronize it, with NTP for example: flows run by the API server's clock, but certificates "
    "and the times that commands show depend on it."
)
_START = "Check that the replicas of JobFlow run, and that controller.enabled is true."


async def check_leader(cluster: Cluster) -> AsyncIterator[Result]:
    # by the API server's clock, because that of the holder may differ
    now = cluster.client.clock.now()
    async for name, by_url, lease in _leases(cluster):
        spec = (lease or {}).get("spec") or {}
        duration = timedelta(seconds=spec.get("leaseDurationSeconds") or 0)
        renewed = datetime.fromisoformat(spec.get("renewTime") or "1970-01-01T00:00:00Z")
        holder = spec.get("holderIdentity")
        if lease is None and by_url:  # replicas outside the cluster may have none
            yield warning(
                f"There is no Lease {name}, so it is not known whether a replica runs the flows.",
                "This is intended in a sandbox and with --no-leader-election.",
            )
        elif not holder:
            what = "does not exist" if lease is None else "has no holder"
            yield fault(f"The Lease {name} {what}, so no replica runs flows.", _START)
        # another replica takes the Lease over within this time, if there is one
        elif renewed + duration + TOLERANCE < now:
            ago = format_elapsed(renewed, now)
            lapsed = f"{holder} has not renewed the Lease {name} for {ago}"
            yield fault(f"{lapsed}, so no replica runs flows.", _START)
        else:
            yield ok(f"{holder} leads.")


async def check_clocks(cluster: Cluster) -> AsyncIterator[Result]:
    """Compare the clocks of this machine and of each leader with that of the API server."""
    leases = [lease async for *_, lease in _leases(cluster) if lease is not None]
    offsets = [("this machine", cluster.client.clock.offset), *map(find_offset, leases)]
    known = [each for each in offsets if each is not None]
    wrong = [text for whose, offset in known if (text := describe_offset(offset, whose))]
    for text in wrong:
        yield warning(text, _SYNCHRONIZE)
    if not wrong:
        yield ok("Clocks agree with that of the API server.")


async def _leases(cluster: Cluster) -> AsyncIterator[tuple[str, bool, Json | None]]:
    """Yield for each release the name of its Lease, whether its replicas are outside the cluster,
    and the Lease."""
    configured: list[tuple[str, str]] = []
    for configuration in await find_configurations(cluster):
        service = find_service(configuration) or {}
        # the chart gives both the same name
        configured.append((str(service.get("namespace") or ""), name_of(configuration)))
    for namespace, name in configured or [("", DEFAULT)]:
        found: list[Json | None]
        if namespace:
            found = [await cluster.read(LEASES, namespace, name)]
        else:  # a webhook at a URL does not tell where the Lease is
            query = (("fieldSelector", f"metadata.name={name}"),)
            found = [*await cluster.read_all(LEASES, query=query)]
        for lease in found or [None]:
            yield name, bool(configured) and not namespace, lease


def find_offset(lease: Json) -> tuple[str, float] | None:
    """Return whose clock set the times in a Lease, and the seconds by which the API server's is
    ahead of it. None if it was not noted."""
    spec, managed = lease.get("spec") or {}, lease["metadata"].get("managedFields") or ()
    times = [datetime.fromisoformat(each["time"]) for each in managed if each.get("time")]
    # the holder writes renewTime by its own clock, the API server notes the time of that write
    if not times or not spec.get("renewTime"):
        return None
    offset = max(times) - datetime.fromisoformat(spec["renewTime"])
    return spec.get("holderIdentity") or "the last leader", offset.total_seconds()


def describe_offset(offset: float, whose: str) -> str:
    """Return a sentence about a large offset of a clock, in seconds; "" about a small one."""
    if abs(offset) < LARGE_OFFSET:
        return ""
    difference = timedelta(seconds=round(abs(offset)))
    word = "behind" if offset > 0 else "ahead of"
    return f"The clock of {whose} is {difference} {word} that of the API server."
