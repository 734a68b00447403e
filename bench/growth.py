"""How time and memory grow with the number of steps, and of objects that exist: `python -m bench
growth` measures each at 1, 4 and 16 times a size.

The exponent e means that n times the size takes n to the power of e: 1 is linear, 0 is no growth.
"""

import asyncio
import gc
import math
import os
import statistics
import time
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import msgspec

from bench import core, samples
from bench.figures import number
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import FlowState, JobFlowStatus
from jobflow.core.admission.validate import Known, validate_flow
from jobflow.core.drawing.layered_layout import layered_layout
from jobflow.core.planning.plan import plan
from jobflow.kube.cache import key_of
from jobflow.runtime import logs
from jobflow.store import Store

SIZES = (1, 4, 16)
MOST = 1.1
"""An exponent above it needs an explanation in docs/performance.md."""


@dataclass(frozen=True, slots=True)
class Growth:
    """One quantity at each of SIZES times a base size."""

    what: str
    unit: str
    base: int
    """The number of steps or objects at size 1."""
    values: list[float]

    @property
    def exponent(self) -> float:
        """The exponent between the smallest and the largest size."""
        return math.log(self.values[-1] / self.values[0]) / math.log(SIZES[-1] / SIZES[0])


def measured(runs: int) -> Iterator[Growth]:
    """Measure everything."""
    for what, base, work in times():
        values = [_milliseconds(work(base * size), runs) for size in SIZES]
        yield Growth(what, "ms", base, values)
    yield Growth("memory of flows of 5 steps", "MiB", 500, [_mebibytes(500 * s) for s in SIZES])


Work = Callable[[], object]
MakeWork = Callable[[int], Work]


def times() -> Iterable[tuple[str, int, MakeWork]]:
    """Return what is timed: a name, the base size, and the function from a size to the work."""
    return (
        ("validate, steps of a chain", 250, _validation),
        ("plan, steps, before the first", 250, lambda steps: _plan(steps, 0)),
        ("plan, steps, half done", 250, lambda steps: _plan(steps, steps // 20)),
        ("layout of the graph, steps", 250, _layout),
        ("jobflow plan, steps", 60, _virtual_time),
        ("reconcile a flow of 5 steps, finished flows beside it", 6250, _reconcile),
    )


def show(found: Iterable[Growth]) -> None:
    """Print each quantity as soon as it is measured."""
    print(f"{'':56} {'base':>6}" + "".join(f"{size:>9}x" for size in SIZES) + "  exponent")
    for each in found:
        values = "".join(f"{number(value):>10}" for value in each.values)
        print(f"{each.what:56} {each.base:6,}{values} {each.exponent:9.2f} {each.unit}", flush=True)


def _validation(steps: int) -> Work:
    flow, known = samples.flow(samples.chain(steps)), Known()
    return lambda: validate_flow(flow, known)


def _plan(steps: int, rounds: int) -> Work:
    flow, view = samples.flow(samples.layered(steps)), samples.view()
    if rounds:
        flow, view = core.carried(flow, rounds, "Completed")
    return lambda: plan(flow, view, now=core.NOW)


def _layout(steps: int) -> Work:
    targets = samples.layered(steps)
    return lambda: layered_layout(targets, range(len(targets)))


def _virtual_time(steps: int) -> Work:
    flow = samples.flow(samples.layered(steps))
    return lambda: core.run_in_virtual_time(flow)


def _reconcile(finished: int) -> Work:
    flow, view = samples.flow(samples.diamond()), samples.view()
    client = core.Answering(flow, view)
    store = core.store_of(flow, view, _finished(finished))

    def reconcile() -> object:
        with open(os.devnull, "w") as nowhere:
            logs.configure(stream=nowhere)
            return asyncio.run(core.reconciler_of(store, client).reconcile(key_of(flow)))

    return reconcile


def _finished(count: int) -> list[JobFlow]:
    """Return finished flows as an API server returns them, each an object of its own."""
    flow = samples.flow(samples.diamond())
    status = JobFlowStatus(state=FlowState(phase="Succeed"), progress="5/5")
    encoded = msgspec.json.encode(msgspec.structs.replace(flow, status=status))
    decode = msgspec.json.Decoder(JobFlow).decode

    def named(index: int) -> JobFlow:
        found = decode(encoded)
        meta = msgspec.structs.replace(
            found.metadata, name=f"done-{index}", uid=f"{samples.UID[:-8]}{index:08}"
        )
        return msgspec.structs.replace(found, metadata=meta)

    return [named(index) for index in range(count)]


def _mebibytes(count: int) -> float:
    gc.collect()
    tracemalloc.start()
    try:
        store = Store()
        store.flows.replace(_finished(count), "1")
        return tracemalloc.get_traced_memory()[0] / 2**20
    finally:
        tracemalloc.stop()


def _milliseconds(work: Work, runs: int) -> float:
    """Return the median CPU time of a few calls, after one that fills the caches."""
    work()
    values = []
    for _ in range(runs):
        begin = time.process_time()
        work()
        values.append((time.process_time() - begin) * 1000)
    return statistics.median(values)
