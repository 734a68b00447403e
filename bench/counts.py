"""Work that is counted instead of timed: the same on a loaded machine as on an idle one.

`python -m bench counts` prints each count beside the one in `counts.json` and exits with 1 if one
is over it by more than a tenth; `--write` stores them. `tests/performance/test_counts.py` runs the
same gate. Python's instructions depend on its version, so they are judged with one version only.
"""

import asyncio
import json
import statistics
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from bench import core, samples
from bench.server import NOWHERE, known
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.kinds import KINDS
from jobflow.api.volcano.job import Job
from jobflow.controller.hooks import Hooks, ReconcileResult
from jobflow.core.planning.plan import plan
from jobflow.kube.answers import AnswerReader, WatchEvent, decoder
from jobflow.kube.client import Client
from jobflow.kube.credentials import Credentials, Login
from jobflow.webhook.app import create_app
from jobflow.webhook.cluster import StoreCluster
from support.laws.counted_work import opcodes_run
from support.network.anonymous import anonymous
from support.sandbox.running_controller import DIAMOND, cluster, flow, template
from support.time.leaping_loop import in_leaps

STORED = Path(__file__).with_name("counts.json")
PYTHON = (3, 11)
"""The version of Python whose instructions are judged."""
MARGIN = 1.1
"""A count may be this many times the stored one."""
FLOWS = 5
"""Flows of each shape, one after the other; the median of their requests counts."""
WIDE = {"a": "", **{f"s-{number}": "a" for number in range(98)}, "b": "s-0"}
"""Steps and their targets, of which 98 start at once."""
SETTLED_SECONDS = 60.0
"""Seconds after the end of a flow in which its last Events and statuses are written."""
RECONCILES = "reconciles"
"""Printed and not judged, because it depends on how many watch events arrive at once."""


@dataclass(frozen=True, slots=True)
class Count:
    """One counted quantity, and the stored count of it (None: it is new)."""

    what: str
    unit: str
    value: float
    stored: float | None
    is_judged: bool

    @property
    def is_over(self) -> bool:
        """Whether the count fails the gate. A quantity without a stored count fails too."""
        return self.is_judged and (self.stored is None or self.value > self.stored * MARGIN)


def stored() -> dict[str, float]:
    """Return the stored counts."""
    counts: dict[str, float] = json.loads(STORED.read_text())
    return counts


def counted() -> Iterator[Count]:
    """Count everything."""
    known = stored()
    for what, value in requests_of_flows().items():
        yield Count(what, "per flow", value, known.get(what), RECONCILES not in what)
    is_judged = sys.version_info[:2] == PYTHON
    with asyncio.Runner() as runner:
        for what, work in instructions(runner).items():
            work()
            value = opcodes_run(work)
            yield Count(what, "instructions", value, known.get(what), is_judged)


def write(counts: Iterable[Count]) -> None:
    """Store the counts as those to compare with."""
    values = {count.what: count.value for count in counts}
    STORED.write_text(json.dumps(values, indent=2) + "\n")


def show(counts: Iterable[Count]) -> bool:
    """Print each count as soon as it is counted; return whether the gate is passed."""
    print(f"{'':44} {'count':>10} {'stored':>10}  share")
    is_passed = True
    for count in counts:
        stored = "-" if count.stored is None else f"{count.stored:,.10g}"
        share = f"{count.value / count.stored:5.2f}" if count.stored else "    -"
        note = " over the limit" if count.is_over else "" if count.is_judged else " not judged"
        print(f"{count.what:44} {count.value:10,.10g} {stored:>10}  {share} {count.unit}{note}")
        is_passed = is_passed and not count.is_over
    return is_passed


def requests_of_flows() -> dict[str, float]:
    """Count the requests of the controller for a diamond of 5 steps by verb and resource, its
    Events and its reconciles, on the sandbox's API server. Watches are not counted."""
    return in_leaps(_requests_of_flows())


async def _requests_of_flows() -> dict[str, float]:
    hooks = Reconciles()
    found: dict[str, list[Counter[str]]] = {}
    async with cluster() as world, Counting(anonymous(world.server.url)) as client:
        async with world.controller(client, hooks=hooks), world.ends():
            await world.apply(*(template(name) for name in {*DIAMOND, *WIDE}))
            for shape, steps in (("diamond", DIAMOND), ("100 steps", WIDE)):
                for number in range(FLOWS):
                    client.sent.clear()
                    hooks.count = 0
                    name = f"f-{len(steps)}-{number}"
                    await world.apply(flow(name, steps))
                    await world.ended(name)
                    await asyncio.sleep(SETTLED_SECONDS)
                    sent = client.sent + Counter({RECONCILES: hooks.count})
                    found.setdefault(shape, []).append(sent)
    return {
        f"{shape}, {what}": statistics.median(count[what] for count in counts)
        for shape, counts in found.items()
        for what in sorted(set[str]().union(*counts))
    }


class Counting(Client):
    """A client that counts its requests."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.sent: Counter[str] = Counter()

    async def request(self, method: str, path: str, **more: Any) -> bytes:
        """Count the request and send it."""
        resource = path.partition("?")[0].partition("/namespaces/")[2].split("/")[1::2]
        if resource:
            self.sent[f"{method} {'/'.join(resource)}"] += 1
        return await super().request(method, path, **more)


class Reconciles(Hooks):
    """Counts reconciles."""

    count = 0

    def reconciled(self, seconds: float, result: ReconcileResult) -> None:
        """Count it."""
        self.count += 1


def instructions(runner: asyncio.Runner) -> dict[str, Callable[[], object]]:
    """Return the calls of which the instructions are counted, by their names."""
    started, before = core.states()["before its first step"]
    going, half = core.states()["half done"]
    [vcjob, *_] = half.jobs.values()
    frames = {"flow": _frame(going), "vcjob": _frame(vcjob)}
    decoders: dict[str, AnswerReader[Any]] = {"flow": decoder(JobFlow), "vcjob": decoder(Job)}

    def decode(kind: str) -> Any:
        return decoders[kind].decode(decoder(WatchEvent).decode(frames[kind]).object)

    return {
        "review, 5 steps": _reviewing(runner, samples.diamond()),
        "review, 100 steps": _reviewing(runner, samples.layered(100)),
        "plan, 1,000 steps, before its first step": lambda: plan(started, before, now=core.NOW),
        "plan, 1,000 steps, half done": lambda: plan(going, half, now=core.NOW),
        "decode, vcjob": lambda: decode("vcjob"),
        "decode, flow of 1,000 steps": lambda: decode("flow"),
    }


def _frame(obj: object) -> bytes:
    return msgspec.json.encode({"type": "MODIFIED", "object": obj})


def _reviewing(runner: asyncio.Runner, targets: list[list[int]]) -> Callable[[], object]:
    """Return a call that sends a review to the app of the webhook and reads the answer."""
    cluster = StoreCluster(known(), Client(Credentials(Login(NOWHERE))))
    app = create_app(cluster)
    body = samples.review(targets)
    scope = {"type": "http", "method": "POST", "path": KINDS["JobFlow"].review_path}
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    def review() -> None:
        sent.clear()
        runner.run(app(scope, receive, send))
        assert msgspec.json.decode(sent[-1]["body"])["response"]["allowed"] is True

    return review
