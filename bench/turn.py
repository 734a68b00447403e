"""One turn of one controller: it starts, carries out every load, ends, and its objects go."""

import ssl
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from bench import client, samples
from bench.comparison import OURS, Measure
from bench.controllers import Controller, OurController, Webhook
from bench.driver import Seen
from bench.loads import LOADS, Load, carried, percentiles, waits
from bench.processes import module, usage
from bench.wire import Where
from jobflow.api.resources import JOBTEMPLATES, Resource
from jobflow.runtime.event_loop import run
from support.cluster.control_plane import API_SERVER, ETCD, token
from support.cluster.real_cluster import RealCluster

QUIET_SECONDS = 1.0
"""Seconds without a request in a namespace after which all requests have been sent."""
GONE_WITHIN_SECONDS = 120
WARM_UP = Load("warm-up", LOADS[0].targets, 5)
PER_FLOWS = 100
"""CPU time is given for this many flows."""
REVIEWED = {5: samples.diamond(), 100: samples.layered(100), 1000: samples.chain(1000)}
"""The flows of reviews, by their number of steps. Layers of 1,000 steps are left out, because
Volcano's webhook did not answer within minutes: it seems to follow each path, of which there are
2 to the power of 99."""
WARM_UP_SECONDS = 0.5
REVIEW_SECONDS = 2.0
"""Length of the reviews of one size."""

Measured = Iterator[tuple[Measure, float]]


class Turn:
    """A turn of `controller` on a cluster without flows."""

    def __init__(self, real: RealCluster, controller: Controller) -> None:
        self._real = real
        self._controller = controller
        self._where = Where(real.plane.url, str(real.plane.ca), token("admin"))
        self._namespaces: list[str] = []

    def measured(self, loads: Sequence[Load], *, reviews: bool) -> Measured:
        """Carry out the loads, and reviews if the controller has a webhook; return a value for each
        measure."""
        where, kind = self._where, self._controller.driver
        driving = module("bench.driver", kind, where.url, where.ca, where.token)
        with self._controller.running() as pids, driving as (driver, _):
            # Connections are open and code is loaded afterwards.
            list(self._load(WARM_UP, pids, driver))
            for load in loads:
                if not load.places or self._controller.name == OURS:
                    yield from self._load(load, pids, driver)
            if reviews and self._controller.webhook is not None:
                yield from self._reviews(self._controller.webhook)
        self._clean()

    def _load(self, load: Load, pids: Sequence[int], driver: subprocess.Popen[str]) -> Measured:
        namespace = self._new_namespace(load.name)
        self._controller.fill(namespace, len(load.targets))
        _seen(driver)
        before, server_before = usage(pids), self._server_cpu()
        seconds = run(carried(self._where, self._controller, namespace, load))
        requests = self._requests(namespace, load.flows)
        after, server_cpu = usage(pids), self._server_cpu() - server_before
        took = [each * 1000 for each in waits(_seen(driver), load.targets)]
        assert len(took) == load.hand_overs, f"{len(took)} hand-overs of {load.hand_overs}"

        if not load.a_second:
            yield Measure(load.name, "flows", "flows/s"), load.flows / seconds
        if took:
            half, end = percentiles(took)
            yield Measure(load.name, "hand-over, p50", "ms"), half
            yield Measure(load.name, "hand-over, p99", "ms"), end
        used = (after.cpu_seconds - before.cpu_seconds) * PER_FLOWS / load.flows
        yield Measure(load.name, "CPU of the controller", f"s/{PER_FLOWS} flows"), used
        used = server_cpu * PER_FLOWS / load.flows
        yield Measure(load.name, "CPU of the API server", f"s/{PER_FLOWS} flows"), used
        yield Measure(load.name, "memory of the controller", "MiB"), after.memory_mib
        for request, count in sorted(requests.items()):
            yield Measure(load.name, request, "requests/flow"), count

    def _new_namespace(self, load: str) -> str:
        namespace = self._real.new_namespace(f"bench-{load}")
        self._namespaces.append(namespace)
        return namespace

    def _reviews(self, webhook: Webhook) -> Measured:
        """Send reviews of flows whose template and queue exist, for each number of steps."""
        namespace = self._new_namespace("reviews")
        template = JOBTEMPLATES.path(namespace)
        self._real.admin.post(template, json=samples.template_manifest()).raise_for_status()
        trust = ssl.create_default_context(cafile=webhook.ca)
        for steps, targets in REVIEWED.items():
            body = samples.review(targets, namespace)
            run(client.reviews(webhook.port, trust, body, WARM_UP_SECONDS))
            before = usage([webhook.pid]).cpu_seconds
            answered = run(client.reviews(webhook.port, trust, body, REVIEW_SECONDS))
            used = usage([webhook.pid]).cpu_seconds - before
            yield Measure("reviews", f"{steps:,} steps", "reviews/s of CPU"), answered / used

    def _server_cpu(self) -> float:
        """Return the seconds of CPU that the API server and etcd have used."""
        processes = self._real.plane.processes
        return usage([processes[name].pid for name in (API_SERVER, ETCD)]).cpu_seconds

    def _requests(self, namespace: str, flows: int) -> dict[str, float]:
        """Return the requests per flow that `jobflow serve` sent for this namespace, by verb and
        resource; those that were refused also as `refused`. Of peers, return none.

        Waits until nobody sends a request there: Events are sent in the background.
        """
        last, asked = -1, self._real.audit.asked(namespace)
        while len(asked) > last:
            time.sleep(QUIET_SECONDS)
            last, asked = len(asked), self._real.audit.asked(namespace)
        ours = [each for each in asked if each.user == OurController.user]
        counted = Counter(f"{each.verb} {each.resource}" for each in ours)
        if refused := sum(each.code >= 300 for each in ours):
            counted["refused"] = refused
        assert bool(counted) == (self._controller.name == OURS)
        return {what: count / flows for what, count in counted.items()}

    def _clean(self) -> None:
        """Delete what the flows have left; return when it is gone."""
        for resource in self._controller.leaves:
            for namespace in self._namespaces:
                path = f"{resource.path(namespace)}?gracePeriodSeconds=0"
                self._real.admin.delete(path, timeout=GONE_WITHIN_SECONDS).raise_for_status()
        deadline = time.monotonic() + GONE_WITHIN_SECONDS
        for resource in self._controller.leaves:
            while left := self._left(resource):
                assert time.monotonic() < deadline, f"{left} {resource.plural} are not deleted"
                time.sleep(0.1)

    def _left(self, resource: Resource) -> int:
        answer = self._real.admin.get(resource.path())
        return len(answer.raise_for_status().json()["items"])


def _seen(driver: subprocess.Popen[str]) -> list[Seen]:
    """Return what the driver has seen since the last call."""
    assert driver.stdin and driver.stdout
    driver.stdin.write("\n")
    driver.stdin.flush()
    return msgspec.json.decode(driver.stdout.readline(), type=list[Seen])
