"""Metrics of one process, under names that begin with `jobflow_`.

Other packages do not know this one: each calls a callback, and `jobflow.app.replica` connects them.
"""

import re
from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache

from prometheus_client import generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from jobflow.app.controller_metrics import ControllerMetrics, MetricsRegistry, StepTimes
from jobflow.webhook.certificates.live import Live
from jobflow.webhook.review.answer import Answer

ADMISSION_BUCKETS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25, 1.0)
"""Upper bounds of histogram buckets in seconds."""
MAX_FIELDS = 200
"""Fields that violations are counted by. Users choose the keys of maps, so fields are unlimited."""
OTHER = "other"
_INDEX = re.compile(r"\[[^\]]*\]")

Values = Callable[[], Mapping[str, float]]
"""The values of a metric by the value of its label."""


class Metrics:
    """All metrics of one process, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = registry = MetricsRegistry()
        self._fields: set[tuple[str, str]] = set()
        self._admission = registry.histogram(
            "admission_seconds",
            "Time to judge a review, from its body to the answer.",
            ["kind", "operation", "outcome"],
            ADMISSION_BUCKETS,
        )
        self._admission_of = cache(self._admission.labels)
        """Finding labels takes longer than observing a value, and a kind has a dozen of them."""
        self._violations = registry.counter(
            "admission_violations",
            "Violations in refused reviews, by field (without indices) and reason.",
            ["kind", "field", "reason"],
        )
        self._requests = registry.histogram(
            "api_request_seconds",
            "Requests to the API server; code 0 means that no answer came.",
            ["verb", "resource", "code"],
        )
        self._pod_templates = registry.counter(
            "pod_template_checks",
            "Dry runs of pod templates. Only result `refused` refuses a JobTemplate.",
            ["result"],
        )
        self._leader = registry.gauge("leader", "1 while this replica runs flows.")
        self.controller = ControllerMetrics(registry)
        self.steps = StepTimes(registry)
        self._watch_writes()

    def text(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self.registry)

    # ------------------------------------------------------------------ callbacks

    def reviewed(self, kind: str, answer: Answer, seconds: float) -> None:
        """Count an answered review."""
        self._admission_of(kind, answer.operation, answer.outcome).observe(seconds)
        for violation in answer.violations:
            self._violations.labels(kind, self._field(kind, violation.path), violation.reason).inc()

    def pod_template_checked(self, result: str) -> None:
        """Count a dry run of a pod template."""
        self._pod_templates.labels(result).inc()

    def requested(self, verb: str, resource: str, code: int, seconds: float) -> None:
        """Count a request to the API server."""
        self._requests.labels(verb, resource, code).observe(seconds)

    def leads(self, leads: bool) -> None:
        """Set whether this replica runs flows."""
        self._leader.set(leads)
        if not leads:
            self.controller.write_order = None

    # ------------------------------------------------------------------ computed when scraped

    def on_scrape(self, name: str, text: str, values: Values, *, label: str = "") -> None:
        """Register a metric whose values are computed at each scrape; a counter if its name ends
        in `_total`, else a gauge. Without a `label`, the only key is ""."""
        self.registry.register(_Scraped(f"jobflow_{name}", text, label, values))

    def _watch_writes(self) -> None:
        def places() -> dict[str, float]:
            order = self.controller.write_order
            return {} if order is None else {"": order.places.limit}

        def waiting(measure: Callable[[list[float]], float]) -> dict[str, float]:
            order = self.controller.write_order
            waited = {} if order is None else order.waiting()
            return {urgency.name.lower(): measure(seconds) for urgency, seconds in waited.items()}

        self.on_scrape("write_places", "Writes that may be under way at once.", places)
        self.on_scrape(
            "writes_waiting",
            "Writes that wait for their turn, by urgency.",
            lambda: waiting(len),
            label="urgency",
        )
        self.on_scrape(
            "writes_oldest_wait_seconds",
            "Seconds for which the oldest of these writes has waited.",
            lambda: waiting(lambda seconds: max(seconds, default=0.0)),
            label="urgency",
        )

    def watch_phases(self, kind: str, phases: Callable[[], Iterable[str]]) -> None:
        """Count the objects of a kind (`flows`, `jobs`) by phase."""
        text = f"{kind.capitalize()} by phase."
        self.on_scrape(kind, text, lambda: Tally(phases()), label="phase")

    def watch_certificate(self, certificate: Live) -> None:
        """Show the certificate that the webhook presents."""

        def expiry() -> dict[str, float]:
            end = certificate.expires
            return {} if end is None else {"": end.timestamp()}

        text = "When the webhook's certificate expires, in seconds since 1970."
        self.on_scrape("certificate_expiry_timestamp_seconds", text, expiry)
        text = "Certificates that replaced another."
        self.on_scrape("certificate_swaps_total", text, lambda: {"": certificate.swaps})
        text = "New certificates that could not be used; the previous one stayed."
        self.on_scrape("certificate_refusals_total", text, lambda: {"": certificate.refused})

    def _field(self, kind: str, path: str) -> str:
        """`spec.flows[2].name` as `spec.flows[].name`; `other` after MAX_FIELDS fields."""
        field = _INDEX.sub("[]", path)
        if (kind, field) not in self._fields:
            if len(self._fields) >= MAX_FIELDS:
                return OTHER
            self._fields.add((kind, field))
        return field


class _Scraped(Collector):
    def __init__(self, name: str, text: str, label: str, values: Values) -> None:
        self._make = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
        self._name, self._text = name, text
        self._labels = [label] if label else []
        self._values = values

    def describe(self) -> Iterator[Metric]:
        yield GaugeMetricFamily(self._name, self._text, labels=self._labels)

    def collect(self) -> Iterator[Metric]:
        family = self._make(self._name, self._text, labels=self._labels)
        for label, value in self._values().items():
            family.add_metric([label] if self._labels else [], value)
        yield family
