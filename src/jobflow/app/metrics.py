"""Metrics of one process. Other packages do not know this one: each calls a callback, and
`jobflow.app.replica` connects them."""

import re
from collections import Counter as Tally
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from jobflow.api.flow.status import (
    ENDED_STEP_PHASES,
    JobFlowStatus,
    RequestedHours,
    RunCondition,
    StepCondition,
)
from jobflow.api.volcano.job import ENDED_PHASES, Job, JobPhase
from jobflow.controller.hooks import Hooks, ReconcileResult
from jobflow.kube.write_order import WriteOrder
from jobflow.store import Listener, controlling_flow
from jobflow.webhook.certificates.live import Live
from jobflow.webhook.review.envelope import Answer

ADMISSION_BUCKETS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25, 1.0)
MAX_FIELDS = 200
"""Fields that violations are counted by. Users choose the keys of maps, so fields are unlimited."""
OTHER = "other"
_INDEX = re.compile(r"\[[^\]]*\]")

Values = Callable[[], Mapping[str, float]]
"""The values of a metric by the value of its label."""


class Metrics:
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

        def places() -> dict[str, float]:
            order = self.controller.write_order
            return {} if order is None else {"": order.window.limit}

        def waiting(measure: Callable[[list[float]], float]) -> dict[str, float]:
            order = self.controller.write_order
            waited = {} if order is None else order.waiting()
            return {urgency.name.lower(): measure(seconds) for urgency, seconds in waited.items()}

        def oldest() -> dict[str, float]:
            return waiting(lambda seconds: max(seconds, default=0.0))

        self.on_scrape("write_places", "Writes that may be under way at once.", places)
        text = "Writes that wait for their turn, by urgency."
        self.on_scrape("writes_waiting", text, lambda: waiting(len), label="urgency")
        text = "Seconds for which the oldest of these writes has waited."
        self.on_scrape("writes_oldest_wait_seconds", text, oldest, label="urgency")

    def text(self) -> bytes:
        return generate_latest(self.registry)

    def reviewed(self, kind: str, answer: Answer, seconds: float) -> None:
        self._admission_of(kind, answer.operation, answer.outcome).observe(seconds)
        for violation in answer.violations:
            field = _INDEX.sub("[]", violation.path)
            if (kind, field) not in self._fields:
                if len(self._fields) < MAX_FIELDS:
                    self._fields.add((kind, field))
                else:
                    field = OTHER
            self._violations.labels(kind, field, violation.reason).inc()

    def pod_template_checked(self, result: str) -> None:
        self._pod_templates.labels(result).inc()

    def requested(self, verb: str, resource: str, code: int, seconds: float) -> None:
        self._requests.labels(verb, resource, code).observe(seconds)

    def leads(self, leads: bool) -> None:
        self._leader.set(leads)
        if not leads:
            self.controller.write_order = None

    def on_scrape(self, name: str, text: str, values: Values, *, label: str = "") -> None:
        """Register a metric whose values are computed at each scrape; a counter if its name ends
        in `_total`, else a gauge. Without a `label`, the only key is ""."""
        self.registry.register(_Scraped(f"jobflow_{name}", text, label, values))

    def watch_phases(self, kind: str, phases: Callable[[], Iterable[str]]) -> None:
        text = f"{kind.capitalize()} by phase."
        self.on_scrape(kind, text, lambda: Tally(phases()), label="phase")

    def watch_certificate(self, certificate: Live) -> None:

        def expiry() -> dict[str, float]:
            end = certificate.expires
            return {} if end is None else {"": end.timestamp()}

        text = "When the webhook's certificate expires, in seconds since 1970."
        self.on_scrape("certificate_expiry_timestamp_seconds", text, expiry)
        text = "Certificates that replaced another."
        self.on_scrape("certificate_swaps_total", text, lambda: {"": certificate.swaps})
        text = "New certificates that could not be used; the previous one stayed."
        self.on_scrape("certificate_refusals_total", text, lambda: {"": certificate.refused})


class _Scraped(Collector):
    def __init__(self, name: str, text: str, label: str, values: Values) -> None:
        self._make = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
        self._name, self._text = name, text
        self._labels = [label] if label else []
        self._values = values

    def describe(self) -> Iterator[Metric]:
        # without this, the registry would compute the values when it registers
        yield GaugeMetricFamily(self._name, self._text, labels=self._labels)

    def collect(self) -> Iterator[Metric]:
        family = self._make(self._name, self._text, labels=self._labels)
        for label, value in self._values().items():
            family.add_metric([label] if self._labels else [], value)
        yield family


REQUEST_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
STEP_BUCKETS = (0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 300.0, 1800.0, 7200.0, 43200.0, 259200.0)
"""Upper bounds of histogram buckets in seconds: steps run for seconds or for days."""
PASSED, FAILED = "passed", "failed"
_DECIMAL = re.compile(r"[0-9]{1,30}(?:\.[0-9]{1,10})?")


class MetricsRegistry(CollectorRegistry):
    """Metrics of one process, under names that begin with `jobflow_`."""

    def histogram(
        self,
        name: str,
        text: str,
        labels: Sequence[str],
        buckets: Sequence[float] = REQUEST_BUCKETS,
    ) -> Histogram:
        return Histogram(f"jobflow_{name}", text, labels, buckets=buckets, registry=self)

    def counter(self, name: str, text: str, labels: Sequence[str] = ()) -> Counter:
        return Counter(f"jobflow_{name}", text, labels, registry=self)

    def gauge(self, name: str, text: str) -> Gauge:
        return Gauge(f"jobflow_{name}", text, registry=self)


class ControllerMetrics(Hooks):
    write_order: WriteOrder | None = None
    """The order of the writes of this term; None while another replica leads."""

    def __init__(self, registry: MetricsRegistry) -> None:
        self._depth = registry.gauge("workqueue_depth", "Flows that are ready to be reconciled.")
        self._waits = registry.histogram(
            "workqueue_wait_seconds", "Time from a flow being ready to its reconcile.", []
        )
        self._retries = registry.counter("workqueue_retries", "Reconciles retried after an error.")
        self._reconciles = registry.histogram(
            "reconcile_seconds", "Time to reconcile one flow.", ["result"]
        )
        self._dropped = registry.counter("events_dropped", "Events that were not written.")
        self._overwritten = registry.counter(
            "statuses_overwritten", "Statuses of flows that others wrote over.", ["writer"]
        )
        self._probes = registry.gauge("probes_waiting", "Probes that have not passed yet.")
        self._attempts = registry.counter(
            "probe_attempts", "Requests to pods, by outcome.", ["outcome"]
        )
        # a counter that does not exist yet cannot be compared with zero
        for outcome in (PASSED, FAILED):
            self._attempts.labels(outcome)
        self._hours = registry.counter(
            "requested_hours",
            "Requested resources times running time of jobs, in core, GiB and GPU hours.",
            ["resource"],
        )
        self._retried = registry.counter("jobs_retried", "Attempts that a retry followed.")
        self._aborted = registry.counter("jobs_aborted", "Aborted jobs, by reason.", ["reason"])

    def ordered_by(self, order: WriteOrder) -> None:
        self.write_order = order

    def depth(self, keys: int) -> None:
        self._depth.set(keys)

    def waited(self, seconds: float) -> None:
        self._waits.observe(seconds)

    def retried(self) -> None:
        self._retries.inc()

    def reconciled(self, seconds: float, result: ReconcileResult) -> None:
        self._reconciles.labels(result).observe(seconds)

    def event_dropped(self) -> None:
        self._dropped.inc()

    def status_overwritten(self, writer: str) -> None:
        self._overwritten.labels(writer).inc()

    def probes(self, waiting: int) -> None:
        self._probes.set(waiting)

    def probed(self, passed: bool) -> None:
        self._attempts.labels(PASSED if passed else FAILED).inc()

    def recorded(self, before: JobFlowStatus, after: JobFlowStatus) -> None:
        """Count the hours, retries and aborts that a status adds to the one before it."""
        # a status that is written again counts nothing twice
        known = before.conditions or {}
        for key, condition in (after.conditions or {}).items():
            old = known.get(key)
            if condition is old:
                continue
            for had, run in _changed_runs(old, condition):
                failed = run.failures + run.disruptions
                if had is not None:
                    failed -= had.failures + had.disruptions
                # no attempt follows the failure that ends a run
                if (retried := failed - (run.phase in ENDED_STEP_PHASES)) > 0:
                    self._retried.inc(retried)
                if run.abort_time is not None and (had is None or had.abort_time is None):
                    self._aborted.labels(run.reason).inc()
            if condition.requested_hours is None:
                continue
            for resource, hours in _hours(condition).items():
                more = hours - (_hours(old)[resource] if old is not None else 0.0)
                if more > 0:
                    self._hours.labels(resource).inc(more)


def _changed_runs(
    before: StepCondition | None, after: StepCondition
) -> Iterator[tuple[RunCondition | None, RunCondition]]:
    """Yield each run of a step before and after the change. A step without runs is its own run."""
    if after.runs is None:
        yield before, after
        return
    known = {run.index: run for run in (before.runs if before is not None else None) or ()}
    for run in after.runs:
        if (old := known.get(run.index)) is not run:
            yield old, run


def _hours(condition: StepCondition) -> dict[str, float]:
    """Hours by resource; 0 for text that is not a number, because others can write a status too."""
    held = condition.requested_hours or RequestedHours()
    texts = {name: getattr(held, name) for name in ("cpu", "memory", "gpu")}
    return {name: float(text) if _DECIMAL.fullmatch(text) else 0.0 for name, text in texts.items()}


class StepTimes(Listener):
    """Times the jobs of flows. Only the leader listens, so that each job is timed once."""

    def __init__(self, registry: MetricsRegistry) -> None:
        text = "Time from a step's job created to Running."
        self._waits = registry.histogram("step_wait_seconds", text, [], STEP_BUCKETS)
        text = "Time from a step's job Running to its end."
        self._runs = registry.histogram("step_run_seconds", text, ["phase"], STEP_BUCKETS)

    def job_changed(self, old: Job | None, new: Job | None) -> None:
        if old is None or new is None or controlling_flow(new.metadata) is None:
            return
        created, ran = new.metadata.creation_timestamp, _since(new, {JobPhase.RUNNING})
        if ran is None:
            return
        if created is not None and _since(old, {JobPhase.RUNNING}) is None:
            self._waits.observe(max(0.0, (ran - created).total_seconds()))
        ended = _since(new, ENDED_PHASES)
        if new.ended and not old.ended and ended is not None:
            self._runs.labels(new.phase).observe(max(0.0, (ended - ran).total_seconds()))


def _since(job: Job, phases: Collection[str]) -> datetime | None:
    entered = (entry for entry in job.status.conditions or () if entry.status in phases)
    return next((entry.last_transition_time for entry in entered), None)
