"""A driver in place of Volcano: completes each vcjob as soon as its ADDED event arrives.

`python -m bench.driver URL CA TOKEN` prints `watching`. For each line on stdin it prints one line
of JSON: the events of the watch since the last line, in their order.
"""

import asyncio
import sys
import time

import msgspec

from bench.wire import Pool, Where, watch
from jobflow.api.resources import JOBS
from jobflow.runtime.event_loop import run

CONNECTIONS = 32
COMPLETED = b'{"status":{"state":{"phase":"Completed"}}}'
MERGE = "application/merge-patch+json"


class Seen(msgspec.Struct, array_like=True):
    """One event of a vcjob; `at` is time.perf_counter() when its last byte arrived."""

    at: float
    type: str
    namespace: str
    name: str
    phase: str


class _Meta(msgspec.Struct):
    name: str
    namespace: str
    resourceVersion: str


class _State(msgspec.Struct):
    phase: str = ""


class _Status(msgspec.Struct):
    state: _State = msgspec.field(default_factory=_State)


class _Job(msgspec.Struct):
    metadata: _Meta
    status: _Status = msgspec.field(default_factory=_Status)


class _Frame(msgspec.Struct):
    type: str
    object: _Job


class Driver:
    """Completes vcjobs and records the events that it sees."""

    def __init__(self, pool: Pool, tasks: asyncio.TaskGroup) -> None:
        self._pool = pool
        self._tasks = tasks
        self._read = msgspec.json.Decoder(_Frame)
        self._seen: list[Seen] = []

    def frame(self, line: bytes) -> str:
        """Handle an event of the watch; return its version."""
        at = time.perf_counter()
        event = self._read.decode(line)
        job, phase = event.object.metadata, event.object.status.state.phase
        self._seen.append(Seen(at, event.type, job.namespace, job.name, phase))
        if event.type == "ADDED" and not phase:
            path = JOBS.path(job.namespace, job.name, "status")
            self._tasks.create_task(self._pool.ask("PATCH", path, COMPLETED, MERGE))
        return job.resourceVersion

    def report(self) -> bytes:
        """Return the events since the last report."""
        seen, self._seen = self._seen, []
        return msgspec.json.encode(seen)


async def main(where: Where) -> None:
    """Drive until stdin ends."""
    reader = asyncio.StreamReader(limit=2**20)
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    pool = await Pool(where).open(CONNECTIONS)
    async with asyncio.TaskGroup() as tasks:
        driver = Driver(pool, tasks)
        watching = tasks.create_task(watch(where, JOBS.path(), driver.frame))
        print("watching", flush=True)
        while await reader.readline():
            sys.stdout.buffer.write(driver.report() + b"\n")
            sys.stdout.buffer.flush()
        watching.cancel()


if __name__ == "__main__":
    run(main(Where(*sys.argv[1:])))
