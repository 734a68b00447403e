"""What the process counts, under names that begin with `jobflow_`. It decides and logs nothing.

The rooms know nothing of it: each tells a callback, and `jobflow.app.serve` connects them.
"""

from __future__ import annotations

import re
import time
from collections import Counter as Tally
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from jobflow.api.command import Command
from jobflow.api.flow_status import (
    ENDED_STEP_PHASES,
    JobFlowStatus,
    RequestedHours,
    RunCondition,
    StepCondition,
)
from jobflow.api.job import ENDED_PHASES, Job, JobPhase
from jobflow.api.jobflow import JobFlow
from jobflow.api.jobtemplate import JobTemplate
from jobflow.api.pod import Pod
from jobflow.controller.hooks import Hooks, Result
from jobflow.store import owner_uid
from jobflow.webhook.review.review import Answer

QUICK = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25, 1.0)
SLOW = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
"""Upper bounds of histogram buckets in seconds: of work in this process, of waiting for others."""
MAX_FIELDS = 200
"""Fields that violations are counted by; the keys of a map are the user's, so they have no end."""
OTHER = "other"
_INDEX = re.compile(r"\[[^\]]*\]")
_DECIMAL = re.compile(r"[0-9]{1,30}(?:\.[0-9]{1,10})?")
PASSED, FAILED = "passed", "failed"

LONG = (0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 300.0, 1800.0, 7200.0, 43200.0, 259200.0)
"""Of what runs for seconds or for days."""

Phases = Callable[[], Iterable[str]]
"""The phase of each object of a kind, now."""


class Certificate(Protocol):
    """What is told of the certificate in use."""

    swaps: int
    refused: int

    @property
    def expires(self) -> datetime | None: ...


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
        self._pod_templates = self.counter(
            "pod_template_checks",
            "Dry runs of pod templates; only those that are refused refuse a JobTemplate.",
            ["result"],
        )
        self.controller = ControllerMetrics(self)
        """What the controller tells of its work."""
        self.steps = StepTimes(self)
        """Listens to the store of a replica that leads."""
        self._leader = Gauge(
            "jobflow_leader", "1 while this replica carries flows out.", registry=self.registry
        )

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

    def pod_template_checked(self, result: str) -> None:
        """The API server was asked to try a pod template."""
        self._pod_templates.labels(result).inc()

    def requested(self, verb: str, resource: str, code: int, seconds: float) -> None:
        """The API server answered a request."""
        self._requests.labels(verb, resource, code).observe(seconds)

    def leads(self, leads: bool) -> None:
        """This replica carries flows out from now on, or does not."""
        self._leader.set(leads)

    # ------------------------------------------------------------------ asked when scraped

    def watch_phases(self, kind: str, phases: Phases) -> None:
        """How many objects of a kind (`flows`, `jobs`) there are in each phase."""

        def counted() -> dict[tuple[str, ...], float]:
            return {(phase,): count for phase, count in Tally(phases()).items()}

        self._scraped(kind, f"{kind.capitalize()} by phase.", ["phase"], counted)

    def watch_suspended(self, suspended: Callable[[], int]) -> None:
        """How many flows are suspended."""
        text = "Flows that are suspended."
        self._scraped("flows_suspended", text, [], lambda: {(): suspended()})

    def watch_ages(self, heard: Callable[[], Mapping[str, float | None]]) -> None:
        """How old the process' knowledge of each kind is, from time.monotonic() of the API
        server's last word; a kind it has not spoken of yet is left out."""

        def ages() -> dict[tuple[str, ...], float]:
            now = time.monotonic()
            return {(kind,): now - at for kind, at in heard().items() if at is not None}

        text = "Since the API server last said something about a kind, bookmarks included."
        self._scraped("watch_age_seconds", text, ["resource"], ages)

    def watch_failing(self, failing: Callable[[], Mapping[str, bool]]) -> None:
        """Which kinds cannot be followed at present."""
        self._scraped(
            "watch_failing",
            "1 while a kind cannot be listed or watched, so that its objects are not known.",
            ["resource"],
            lambda: {(plural,): float(fails) for plural, fails in failing().items()},
        )

    def watch_passed_over(self, objects: Callable[[], Mapping[str, int]]) -> None:
        """How many objects of each kind cannot be read."""
        self._scraped(
            "objects_passed_over",
            "Objects that cannot be read, because they do not fit their kind or are nested too "
            "deeply.",
            ["resource"],
            lambda: {(plural,): float(count) for plural, count in objects().items()},
        )

    def watch_definitions(self, faults: Callable[[], Mapping[str, int]]) -> None:
        """What of the served CustomResourceDefinitions this version cannot work with."""
        text = "Fields of a served definition that this version cannot work with."
        self._scraped(
            "definition_faults",
            text,
            ["resource"],
            lambda: {(plural,): count for plural, count in faults().items()},
        )

    def watch_certificate(self, certificate: Certificate) -> None:
        """What the webhook presents."""

        def expiry() -> dict[tuple[str, ...], float]:
            end = certificate.expires
            return {} if end is None else {(): end.timestamp()}

        text = "When the webhook's certificate ends, in seconds since 1970."
        self._scraped("certificate_expiry_timestamp_seconds", text, [], expiry)
        text = "Certificates that took the place of another."
        self._scraped("certificate_swaps_total", text, [], lambda: {(): certificate.swaps})
        text = "Certificates that were not fit to be presented; the one before stayed."
        self._scraped("certificate_refusals_total", text, [], lambda: {(): certificate.refused})

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
        self._probes = Gauge(
            "jobflow_probes_waiting", "Probes that wait to pass.", registry=metrics.registry
        )
        self._attempts = metrics.counter(
            "probe_attempts", "Requests to pods, by what came of them.", ["outcome"]
        )
        for outcome in (PASSED, FAILED):
            self._attempts.labels(outcome)
        self._hours = metrics.counter(
            "requested_hours",
            "What jobs held of the cluster: requests times running time; cores, GiB, GPUs.",
            ["resource"],
        )
        self._retried = metrics.counter("jobs_retried", "Attempts that a retry followed.", [])
        self._aborted = metrics.counter(
            "jobs_aborted", "Jobs that were to be aborted, by the reason.", ["reason"]
        )

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

    def probes(self, waiting: int) -> None:
        self._probes.set(waiting)

    def probed(self, passed: bool) -> None:
        self._attempts.labels(PASSED if passed else FAILED).inc()

    def recorded(self, before: JobFlowStatus, after: JobFlowStatus) -> None:
        """What steps have held and what has become of their runs since: each hour, retry and abort
        is counted by whoever records it, when it is."""
        known = before.conditions or {}
        for key, condition in (after.conditions or {}).items():
            old = known.get(key)
            if condition is old:
                continue
            self._count_runs(old, condition)
            if condition.requested_hours is None:
                continue
            for resource, hours in _hours(condition).items():
                more = hours - (_hours(old)[resource] if old is not None else 0.0)
                if more > 0:
                    self._hours.labels(resource).inc(more)

    def _count_runs(self, before: StepCondition | None, after: StepCondition) -> None:
        for old, run in _runs(before, after):
            failed = run.failures - (old.failures if old is not None else 0)
            if (retried := failed - (run.phase in ENDED_STEP_PHASES)) > 0:
                self._retried.inc(retried)
            if run.abort_time is not None and (old is None or old.abort_time is None):
                self._aborted.labels(run.reason).inc()


def _runs(
    before: StepCondition | None, after: StepCondition
) -> Iterator[tuple[RunCondition | None, RunCondition]]:
    """The runs of a step, as they were and as they are; of one without any, itself."""
    if after.runs is None:
        yield before, after
        return
    known = {run.index: run for run in (before.runs if before is not None else None) or ()}
    for run in after.runs:
        if (old := known.get(run.index)) is not run:
            yield old, run


class StepTimes:
    """A store's listener that times the vcjobs of flows, each once: by the leader, when it sees
    their phase change."""

    def __init__(self, metrics: Metrics) -> None:
        self._waits = metrics.histogram(
            "step_wait_seconds", "From a step's vcjob being created to its Running.", [], LONG
        )
        self._runs = metrics.histogram(
            "step_run_seconds", "From a step's vcjob being Running to its end.", ["phase"], LONG
        )

    def job_changed(self, old: Job | None, new: Job | None) -> None:
        """Times what of a vcjob has come to its end by this change."""
        if old is None or new is None or not owner_uid(new):
            return
        created, ran = new.metadata.creation_timestamp, _since(new, {JobPhase.RUNNING})
        if ran is None:
            return
        if created is not None and _since(old, {JobPhase.RUNNING}) is None:
            self._waits.observe(max(0.0, (ran - created).total_seconds()))
        ended = _since(new, ENDED_PHASES)
        if new.ended and not old.ended and ended is not None:
            self._runs.labels(new.phase).observe(max(0.0, (ended - ran).total_seconds()))

    def flow_changed(self, old: JobFlow | None, new: JobFlow | None) -> None:
        """Flows are counted by phase, when asked."""

    def template_changed(self, old: JobTemplate | None, new: JobTemplate | None) -> None:
        """Of no interest here."""

    def pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        """Of no interest here."""

    def command_changed(self, command: Command) -> None:
        """Of no interest here."""


def _hours(condition: StepCondition) -> dict[str, float]:
    """By resource; what a status says is ours, but anybody may write there."""
    held = condition.requested_hours or RequestedHours()
    return {name: _number(getattr(held, name)) for name in ("cpu", "memory", "gpu")}


def _number(text: str) -> float:
    return float(text) if _DECIMAL.fullmatch(text) else 0.0


def _since(job: Job, phases: Collection[str]) -> datetime | None:
    """When a vcjob first came into one of these phases."""
    return next(
        (
            each.last_transition_time
            for each in job.status.conditions or ()
            if each.status in phases
        ),
        None,
    )


class _Scraped(Collector):
    """A number, or one for each label, that is worked out when it is asked for."""

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
        counter = self._name.endswith("_total")
        make = CounterMetricFamily if counter else GaugeMetricFamily
        family = make(self._name, self._text, labels=self._labels)
        for labels, value in self._values().items():
            family.add_metric(labels, value)
        yield family
