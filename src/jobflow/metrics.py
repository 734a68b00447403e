"""What the process counts, under names that begin with `jobflow_`. It decides and logs nothing.

The rooms know nothing of it: each tells a callback, and `jobflow.serve` connects them.
"""

from __future__ import annotations

import re
import time
from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from jobflow.controller.hooks import Hooks, Result
from jobflow.webhook.review import Answer

QUICK = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25, 1.0)
SLOW = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
"""Upper bounds of histogram buckets in seconds: of work in this process, of waiting for others."""
MAX_FIELDS = 200
"""Fields that violations are counted by; the keys of a map are the user's, so they have no end."""
OTHER = "other"
_INDEX = re.compile(r"\[[^\]]*\]")

Phases = Callable[[], Iterable[str]]
"""The phase of each object of a kind, now."""


class Metrics:
    """All metrics of one process, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._fields: set[tuple[str, str]] = set()
        self._admission = self.histogram(
            "admission_seconds",
            "Judging a review, from its body to the answer.",
            ["kind", "operation", "outcome"],
            QUICK,
        )
        self._violations = self.counter(
            "admission_violations",
            "Violations in refused reviews, by the field (indices left out) and the reason.",
            ["kind", "field", "reason"],
        )
        self._requests = self.histogram(
            "api_request_seconds",
            "Requests to the API server; code 0 is no answer.",
            ["verb", "resource", "code"],
            SLOW,
        )
        self.controller = ControllerMetrics(self)
        """What the controller tells of its work."""

    def histogram(
        self, name: str, text: str, labels: Sequence[str], buckets: Sequence[float]
    ) -> Histogram:
        """A new histogram of ours."""
        return Histogram(f"jobflow_{name}", text, labels, buckets=buckets, registry=self.registry)

    def counter(self, name: str, text: str, labels: Sequence[str]) -> Counter:
        """A new counter of ours."""
        return Counter(f"jobflow_{name}", text, labels, registry=self.registry)

    def text(self) -> bytes:
        """Everything in Prometheus' text format."""
        return generate_latest(self.registry)

    # ------------------------------------------------------------------ told by the rooms

    def reviewed(self, kind: str, answer: Answer, seconds: float) -> None:
        """A review was answered."""
        self._admission.labels(kind, answer.operation, answer.outcome).observe(seconds)
        for violation in answer.violations:
            self._violations.labels(kind, self._field(kind, violation.path), violation.reason).inc()

    def requested(self, verb: str, resource: str, code: int, seconds: float) -> None:
        """The API server answered a request."""
        self._requests.labels(verb, resource, code).observe(seconds)

    # ------------------------------------------------------------------ asked when scraped

    def watch_phases(self, kind: str, phases: Phases) -> None:
        """How many objects of a kind (`flows`, `jobs`) there are in each phase."""

        def counted() -> dict[tuple[str, ...], float]:
            return {(phase,): count for phase, count in Tally(phases()).items()}

        self._scraped(kind, f"{kind.capitalize()} by phase.", ["phase"], counted)

    def watch_ages(self, heard: Callable[[], Mapping[str, float | None]]) -> None:
        """How old the process' knowledge of each kind is, from time.monotonic() of the API
        server's last word; a kind it has not spoken of yet is left out."""

        def ages() -> dict[tuple[str, ...], float]:
            now = time.monotonic()
            return {(kind,): now - at for kind, at in heard().items() if at is not None}

        text = "Since the API server last said something about a kind, bookmarks included."
        self._scraped("watch_age_seconds", text, ["resource"], ages)

    # ------------------------------------------------------------------

    def _scraped(
        self,
        name: str,
        text: str,
        labels: Sequence[str],
        values: Callable[[], Mapping[tuple[str, ...], float]],
    ) -> None:
        self.registry.register(_Scraped(f"jobflow_{name}", text, labels, values))

    def _field(self, kind: str, path: str) -> str:
        """`spec.flows[2].name` as `spec.flows[].name`; `other` once there are too many."""
        field = _INDEX.sub("[]", path)
        if (kind, field) not in self._fields:
            if len(self._fields) >= MAX_FIELDS:
                return OTHER
            self._fields.add((kind, field))
        return field


class ControllerMetrics(Hooks):
    """Counts the controller's work."""

    def __init__(self, metrics: Metrics) -> None:
        self._depth = Gauge(
            "jobflow_workqueue_depth", "Flows that are due.", registry=metrics.registry
        )
        self._waits = metrics.histogram(
            "workqueue_wait_seconds", "From a flow's being due to the pass over it.", [], SLOW
        )
        self._retries = metrics.counter("workqueue_retries", "Passes put off by a failure.", [])
        self._passes = metrics.histogram(
            "reconcile_seconds", "One pass over one flow.", ["result"], SLOW
        )
        self._dropped = metrics.counter("events_dropped", "Events that were given up.", [])

    def depth(self, keys: int) -> None:
        self._depth.set(keys)

    def waited(self, seconds: float) -> None:
        self._waits.observe(seconds)

    def retried(self) -> None:
        self._retries.inc()

    def reconciled(self, seconds: float, result: Result) -> None:
        self._passes.labels(result).observe(seconds)

    def event_dropped(self) -> None:
        self._dropped.inc()


class _Scraped(Collector):
    """A gauge that is worked out when it is asked for."""

    def __init__(
        self,
        name: str,
        text: str,
        labels: Sequence[str],
        values: Callable[[], Mapping[tuple[str, ...], float]],
    ) -> None:
        self._name, self._text, self._labels, self._values = name, text, labels, values

    def describe(self) -> Iterator[Metric]:
        yield GaugeMetricFamily(self._name, self._text, labels=self._labels)

    def collect(self) -> Iterator[Metric]:
        family = GaugeMetricFamily(self._name, self._text, labels=self._labels)
        for labels, value in self._values().items():
            family.add_metric(labels, value)
        yield family
