"""Milliseconds of the pure functions, rules and plan, with warm caches as in `jobflow serve`."""

import asyncio
import os
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from bench import samples
from jobflow.api import labels
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.resources import ObjectMeta
from jobflow.api.volcano.job import Job, JobState, JobStatus
from jobflow.controller.apply.api_answers import Memory
from jobflow.controller.apply.apply import Applier
from jobflow.controller.apply.events import Recorder
from jobflow.controller.probes.prober import Prober
from jobflow.controller.queue import WorkQueue
from jobflow.controller.reconciler import Reconciler
from jobflow.controller.wants import Wants
from jobflow.core.admission.validate import Known, validate_flow
from jobflow.core.cel.expression import parse_cached
from jobflow.core.planning.actions import CreateJob, JobProbe, ReadPods
from jobflow.core.planning.observed.view import PodsRead, View
from jobflow.core.planning.plan import plan
from jobflow.kube.cache import Key, key_of
from jobflow.kube.client import Client
from jobflow.kube.credentials import Credentials, Login
from jobflow.kube.write_order import WriteOrder
from jobflow.runtime import logs
from jobflow.sandbox.virtual_time.planned_flows import VirtualCluster
from jobflow.store import Store, slim_job

NOW = datetime(2026, 8, 1, 12, tzinfo=UTC)
VALIDATED = {
    "chain": samples.chain(5000),
    "wide": samples.wide(5000),
    "10,000 edges": samples.dense(5000, 10_000),
}

DURATION = f"{labels.SANDBOX_PREFIX}duration"
UID_OF_JOBS = samples.UID[:-4]

CALLS = 5


def validations(runs: int) -> dict[str, list[float]]:
    """Measure the milliseconds to validate a flow of 5,000 steps, by shape; one value per run."""
    known = Known(templates={samples.TEMPLATE: samples.template()}, queues={"default": "Open"})

    def timed(flow: JobFlow) -> list[float]:
        verdict = validate_flow(flow, known)
        assert not verdict.violations, verdict.violations[0]
        return [_milliseconds(lambda: validate_flow(flow, known)) for _ in range(runs)]

    flows = {shape: samples.flow(targets) for shape, targets in VALIDATED.items()}
    flows["chain, a probe each"] = samples.probing(VALIDATED["chain"])
    return {shape: timed(flow) for shape, flow in flows.items()}


def new_validations(runs: int) -> dict[str, list[float]]:
    """Measure the milliseconds to validate flows with expressions that are not in any cache."""
    known = Known(templates={samples.TEMPLATE: samples.template()}, queues={"default": "Open"})

    def validated(flow: JobFlow) -> float:
        parse_cached.cache_clear()
        begin = time.process_time()
        verdict = validate_flow(flow, known)
        took = time.process_time() - begin
        assert not verdict.violations, verdict.violations[0]
        return took * 1000

    return {state: [validated(flow) for _ in range(runs)] for state, flow in _controlled().items()}


def plans(runs: int) -> dict[str, list[float]]:
    """Measure the milliseconds to plan a flow of 1,000 steps, one value per run: before its first
    step, and when half of the steps have completed, ten of them just now."""

    def timed(flow: JobFlow, view: View) -> list[float]:
        return [_milliseconds(lambda: plan(flow, view, now=NOW)) for _ in range(runs)]

    halves = {f"{what}, half done": advanced(flow) for what, flow in _controlled().items()}
    return {state: timed(*given) for state, given in (states() | halves).items()}


def first_plans(runs: int) -> list[float]:
    """Measure the milliseconds of the first plan of a flow of 1,000 steps whose spec is new."""
    flow, view = states()["before its first step"]

    def first(number: int) -> float:
        meta = msgspec.structs.replace(flow.metadata, name=f"{flow.metadata.name}-{number}")
        new = msgspec.structs.replace(flow, metadata=meta)
        begin = time.process_time()
        plan(new, view, now=NOW)
        return (time.process_time() - begin) * 1000

    return [first(number) for number in range(runs)]


def virtual_times(runs: int) -> dict[str, list[float]]:
    """Measure the milliseconds in which `jobflow plan` runs a flow of 1,000 steps in virtual time,
    by shape. Durations of the vcjobs differ, so that nearly every end needs a plan of its own."""

    def timed(flow: JobFlow) -> float:
        begin = time.process_time()
        run_in_virtual_time(flow)
        return (time.process_time() - begin) * 1000

    shapes = {
        "chain": samples.flow(samples.chain(1000)),
        "chain with timeouts": samples.limited(samples.chain(1000)),
        "wide": samples.flow(samples.wide(1000)),
        "layers of 10": samples.flow(samples.layered(1000)),
        "forEach of 1,000": samples.searching(1000),
    }
    return {shape: [timed(flow) for _ in range(runs)] for shape, flow in shapes.items()}


def run_in_virtual_time(flow: JobFlow) -> None:
    """Run a flow of the samples to its end, as `jobflow plan` does."""

    def annotate(step: str, annotations: Mapping[str, str]) -> dict[str, str]:
        seconds = 10 + int(step.partition("-")[2]) * 37 % 499
        return {**annotations, DURATION: f"{seconds}s"}

    cluster = VirtualCluster(NOW, annotate=annotate)
    cluster.add(flow, [samples.template()])
    cluster.run()
    assert cluster.flows[0].final


def reconciles(runs: int) -> dict[str, list[float]]:
    """Measure the milliseconds of one reconcile of a flow of 1,000 steps, without sending requests:
    the plan, encoding ten vcjobs and a status, storing the answers, the log."""
    with open(os.devnull, "w") as nowhere:
        logs.configure(stream=nowhere)
        return {state: asyncio.run(_reconciled(*given, runs)) for state, given in states().items()}


async def _reconciled(flow: JobFlow, view: View, runs: int) -> list[float]:
    client = Answering(flow, view)

    async def once() -> float:
        reconciler = reconciler_of(store_of(flow, view), client)
        begin = time.process_time()
        outcome = await reconciler.reconcile(key_of(flow))
        took = time.process_time() - begin
        assert not outcome.error, outcome.error
        return took * 1000

    await once()
    return [sum([await once() for _ in range(CALLS)]) / CALLS for _ in range(runs)]


class Answering(Client):
    """Prepared answers of an API server to the requests of a plan."""

    def __init__(self, flow: JobFlow, view: View) -> None:
        super().__init__(Credentials(Login("http://127.0.0.1:1")))
        planned = plan(flow, view, now=NOW)
        version = {"resourceVersion": "3"}
        self._jobs = {}
        for number, action in enumerate(planned.actions):
            assert isinstance(action, CreateJob)
            metadata = action.manifest["metadata"] | {"uid": f"new-{number}"} | version
            stored = dict(action.manifest) | {"metadata": metadata}
            self._jobs[msgspec.json.encode(action.manifest)] = msgspec.json.encode(stored)
        meta = msgspec.structs.replace(flow.metadata, resource_version="3")
        written = msgspec.structs.replace(flow, metadata=meta, status=planned.status)
        self._flow = msgspec.json.encode(written)

    async def request(
        self, method: str, path: str, *, body: bytes | None = None, **more: Any
    ) -> bytes:
        """Answer like Client."""
        assert body is not None
        return self._jobs[body] if method == "POST" else self._flow


def store_of(flow: JobFlow, view: View, others: Sequence[JobFlow] = ()) -> Store:
    """Return a store with a flow, the objects of its view, and other flows."""
    store = Store()
    store.templates.replace(view.templates.values(), "1")
    store.flows.replace([flow, *others], "1")
    store.jobs.replace([slim_job(job) for job in view.jobs.values()], "1")
    store.commands.replace([], "1")
    return store


def reconciler_of(store: Store, client: Client) -> Reconciler:
    """Create a reconciler over a store."""
    memory = Memory()
    applier, recorder = Applier(client, store, memory), Recorder(client)
    queue = WorkQueue[Key]()
    wants = Wants({JobProbe: Prober(store.pods.of, queue.add)})
    return Reconciler(store, applier, memory, recorder, queue, wants, WriteOrder(), now=lambda: NOW)


def states() -> dict[str, tuple[JobFlow, View]]:
    """Return a flow of 1,000 steps in layers of ten, at its beginning and in the middle."""
    flow = samples.flow(samples.layered(1000))
    return {
        "before its first step": (flow, samples.view()),
        "half done": carried(flow, 50, "Completed"),
    }


def _controlled() -> dict[str, JobFlow]:
    """Return flows with expressions in every step."""
    return {
        "conditions everywhere": samples.conditional(samples.layered(1000)),
        "forEach of 1,000": samples.searching(1000),
    }


def advanced(flow: JobFlow, done: int = 500) -> tuple[JobFlow, View]:
    """Return the flow after this number of its vcjobs have completed, by applied plans; their pods
    were read and have no outputs. Raises ValueError if it never has so many."""
    templates = samples.view().templates
    jobs: dict[str, Job] = {}
    read: dict[str, PodsRead] = {}
    while True:
        now = NOW - timedelta(minutes=1000 - len(jobs))
        view = View(templates=templates, jobs=jobs, read=read)
        if len(jobs) >= done:
            return flow, view
        planned = plan(flow, view, now=now)
        for action in planned.actions:
            if isinstance(action, CreateJob):
                metadata = action.manifest["metadata"] | {"uid": f"{UID_OF_JOBS}{len(jobs):04}"}
                made = _job(msgspec.convert(metadata, ObjectMeta), "Completed", now)
                jobs = {**jobs, action.name: made}
            elif isinstance(action, ReadPods):
                read = {**read, action.uid: PodsRead()}
        if (jobs, read, planned.status) == (view.jobs, view.read, flow.status):
            raise ValueError(f"{flow.metadata.name} makes {len(jobs)} vcjobs, not {done}")
        flow = msgspec.structs.replace(flow, status=planned.status)


def carried(flow: JobFlow, rounds: int, phase: str) -> tuple[JobFlow, View]:
    """Return the flow after this number of rounds of vcjobs, by applied plans: those of the last
    round have just entered `phase`, the others have completed."""
    templates = samples.view().templates
    jobs: dict[str, Job] = {}
    for done in range(rounds):
        now = NOW - timedelta(minutes=rounds - done)
        planned = plan(flow, View(templates=templates, jobs=jobs), now=now)
        last = phase if done == rounds - 1 else "Completed"
        for number, action in enumerate(planned.actions):
            assert isinstance(action, CreateJob)
            metadata = action.manifest["metadata"] | {"uid": _uid(flow, done, number)}
            jobs[action.name] = _job(msgspec.convert(metadata, ObjectMeta), last, now)
        flow = msgspec.structs.replace(flow, status=planned.status)
    return flow, View(templates=templates, jobs=jobs)


def _uid(flow: JobFlow, done: int, number: int) -> str:
    return f"{flow.metadata.uid[:-4]}{done:02}{number:02}"


def _job(metadata: ObjectMeta, phase: str, now: datetime) -> Job:
    state = JobState(phase=phase, last_transition_time=now)
    return Job(
        metadata=msgspec.structs.replace(metadata, creation_timestamp=now),
        status=JobStatus(state=state),
    )


def _milliseconds(function: Callable[[], object]) -> float:
    """Return the CPU time of one call, the average of a few. Other processes do not add to it."""
    begin = time.process_time()
    for _ in range(CALLS):
        function()
    return (time.process_time() - begin) / CALLS * 1000
