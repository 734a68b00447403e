"""Flows on a cluster as values: read, waited for and steered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field, replace
from html import escape
from typing import Any, TypeVar

from jobflow.api.flow.jobflow import JobFlow
from jobflow.authoring.objects.faults import ClusterError
from jobflow.authoring.results import Result
from jobflow.client.errors import CommandError, unreachable
from jobflow.client.flows.find_flow import connect, find_flow, find_flows
from jobflow.client.flows.follow import Display, FlowFollower, following, following_children
from jobflow.client.logs.read import read_logs, select_step
from jobflow.client.logs.selection import LogSelection
from jobflow.client.logs.stream import LogSink, clean
from jobflow.client.options import Connection, Selection
from jobflow.client.verbs import answer, by_hand
from jobflow.client.verbs import command as verbs
from jobflow.display.notebook import notebook_display
from jobflow.kube.answers import NetworkError
from jobflow.kube.cache import key_of
from jobflow.kube.client import Client
from jobflow.kube.credentials import ConfigError
from jobflow.runtime import logs
from jobflow.runtime.event_loop import run_beside

T = TypeVar("T")
Work = Callable[[Client], Coroutine[Any, Any, T]]
Send = Callable[[Client, JobFlow], Coroutine[Any, Any, str]]
_CLOSING_SECONDS = 0.25
# Longer than another replica takes to become the leader.
_HANDLED_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Run:
    """A flow on a cluster. `await run` waits for its end beside other tasks, as `wait` does. All
    methods raise ClusterError."""

    name: str
    namespace: str
    uid: str = field(repr=False)
    """It names this flow alone, and no later one of its name."""
    target: Connection = field(repr=False)

    def status(self) -> Result:
        """Return the flow as it is now."""
        return Result(with_client(self.target, self._read))

    @property
    def outputs(self) -> Mapping[str, Any]:
        """The outputs of the flow, once it has ended."""
        return self.status().outputs

    def wait(self, timeout: float | None = None) -> Result:
        """Return the flow when it has ended; a notebook shows it meanwhile. Raises TimeoutError
        after `timeout` seconds."""
        try:
            return Result(with_client(self.target, lambda client: self._ended(client, timeout)))
        except TimeoutError:
            raise TimeoutError(f"flow {self.name} has not ended after {timeout} s") from None

    def _repr_html_(self) -> str:
        try:
            return self.status()._repr_html_()
        except ClusterError as error:
            return f"<pre>{escape(str(error))}</pre>"

    def __await__(self) -> Generator[Any, None, Result]:
        async def ended() -> Result:
            with _as_cluster_errors():
                return Result(await _connected(self.target, self._ended))

        return ended().__await__()

    def logs(
        self, step: str | None = None, *, failed: bool = False, tail: int | None = None
    ) -> str:
        """Return the logs of the pods that still exist, each line behind step/pod. `step` is a
        step such as `train`, an item such as `train/3`, or `train/3/fit` in its child flow.
        `failed`: only containers that have ended with an error. `tail`: the last lines of each."""
        lines = _Lines()

        async def read(client: Client) -> None:
            selection = LogSelection(failed=failed, tail=tail)
            flow = await self._read(client)
            flow, selection = await select_step(client, flow, step, selection, follow=False)
            await read_logs(client, flow, selection, lines)

        with_client(self.target, read)
        return "".join(f"{line}\n" for line in lines.found)

    def cancel(
        self, step: str | Iterable[str] | None = None, *, now: bool = False, message: str = ""
    ) -> None:
        """Cancel the flow: its jobs are ended, then its finally runs, unless `now`. With `step`,
        only these steps and items are given up, and fail: `"train"`, `"train/3"`, or
        `"site/0/fit"` in a child flow. `message` is a comment on that."""
        if _names_steps(step, message, now=now):
            return self._steer(by_hand.CANCEL_STEP, step, message)
        return self._send(verbs.CANCEL_NOW if now else verbs.CANCEL)

    def retry(
        self,
        step: str | Iterable[str] | None = None,
        *,
        tolerated: bool = False,
        message: str = "",
    ) -> None:
        """Run the failed steps again, and what depends on them; return once that has begun.
        `tolerated`: also failures that continue_on_failure tolerates. With `step`, these steps and
        items that have ended run again, also completed ones, and all that was made of them."""
        if _names_steps(step, message, tolerated=tolerated):
            return self._steer(by_hand.RETRY_STEPS, step, message)
        return self._send(verbs.RETRY_TOLERATED if tolerated else verbs.RETRY)

    def skip(
        self,
        step: str | Iterable[str],
        *,
        outputs: Mapping[str, Any] | None = None,
        message: str = "",
    ) -> None:
        """Settle steps or items that have failed, hang or wait: the flow goes on as if they had
        completed with these outputs. Raises ValueError for outputs that cannot be stored."""
        self._steer(by_hand.SKIP_STEP, step, message, answer.annotation_of(outputs or {}))

    def scale(self, parallelism: int, step: str = "", *, message: str = "") -> None:
        """Set how many jobs of the flow, or items of a step, there are at once while it runs."""
        self._steer(by_hand.SCALE_FLOW, f"{step}={parallelism}".removeprefix("="), message)

    def suspend(self, *, abort: bool = False) -> None:
        """Start no further job until `resume`. `abort` ends the jobs that run."""
        self._send(verbs.SUSPEND_AND_ABORT if abort else verbs.SUSPEND)

    def resume(self) -> None:
        """Let a suspended flow go on."""
        self._send(verbs.RESUME)

    def approve(
        self, step: str, *, message: str = "", outputs: Mapping[str, Any] | None = None
    ) -> None:
        """Approve a step that waits for approval, or an item of it (`release/2`). `message` is a
        comment. Raises ValueError for outputs that cannot be stored."""
        annotations = answer.annotation_of(outputs or {})
        self._answer(answer.APPROVE, step, message, annotations)

    def reject(self, step: str, *, message: str = "") -> None:
        """Reject a step that waits for approval, or an item of it."""
        self._answer(answer.REJECT, step, message)

    def delete(self, *, cancel: bool = False) -> None:
        """Delete the flow, which must have ended. `cancel` cancels it first, and waits for that."""

        async def delete(client: Client) -> None:
            flow = await self._read(client)
            if why := verbs.refuse_delete(flow):
                if not cancel:
                    raise ClusterError(f"{why} (or write delete(cancel=True))")
                await verbs.cancel_first(client, flow)
                flow = await self._ended(client)
            await verbs.delete_flow(client, flow)

        with_client(self.target, delete)

    def _send(self, verb: verbs.Verb) -> None:
        self._command(verb, lambda client, flow: verbs.send_verb(client, flow, verb))

    def _steer(
        self,
        verb: by_hand.StepVerb,
        step: str | Iterable[str] | None,
        comment: str,
        annotations: dict[str, str] | None = None,
    ) -> None:
        paths = [step] if isinstance(step, str) else [*(step or ())]

        async def send(client: Client, flow: JobFlow) -> str:
            asked = by_hand.read_command(verb, paths, comment, annotations)
            if verb is by_hand.SCALE_FLOW:
                await by_hand.check_scale(client, flow, asked)
            else:
                await by_hand.check_steps(client, flow, verb, asked)
            return await by_hand.send_steps(client, flow, verb, asked)

        self._command(verb.verb, send)

    def _command(self, verb: verbs.Verb, send: Send) -> None:
        """Send a Command; return once a flow that has ended goes on because of it."""

        async def command(client: Client) -> None:
            flow = await self._read(client)
            key = key_of(flow)
            await send(client, flow)
            if not flow.final:
                return
            # Until then the flow has ended, and `wait` would return at once.
            async with asyncio.timeout(_HANDLED_SECONDS), following(client, [flow]) as follower:
                await follower.until(
                    lambda seen: verbs.RETRY.handled(flow, seen.flows[key]) or key in seen.deleted
                )
            await asyncio.sleep(_CLOSING_SECONDS)

        try:
            with_client(self.target, command)
        except TimeoutError:
            why = f"flow {self.name}: no controller has handled the {verb.name} yet"
            raise ClusterError(f"{why}; is `jobflow serve` running?") from None

    def _answer(
        self,
        verb: verbs.Verb,
        step: str,
        comment: str,
        annotations: dict[str, str] | None = None,
    ) -> None:
        async def send(client: Client) -> None:
            flow = await self._read(client)
            await answer.create_answer(
                client, flow, verb, step, comment=comment, annotations=annotations
            )

        with_client(self.target, send)

    async def _read(self, client: Client) -> JobFlow:
        flow = await find_flow(client, self.name)
        if flow.metadata.uid != self.uid:
            raise ClusterError(
                f'flow {self.name} was deleted; get("{self.name}") returns the new one of its name'
            )
        return flow

    async def _ended(self, client: Client, seconds: float | None = None) -> JobFlow:
        flow = await self._read(client)
        key = key_of(flow)

        def has_ended(follower: FlowFollower) -> bool:
            return follower.flows[key].final or key in follower.deleted

        display = notebook_display() or Display()
        async with asyncio.timeout(seconds), AsyncExitStack() as stack:
            stack.enter_context(display)
            follower = await stack.enter_async_context(following(client, [flow], display.show))
            if display.shows_children:
                children = following_children(client, [flow], display.show_child)
                await stack.enter_async_context(children)
            await follower.until(has_ended)
        # The TLS connection of a watch needs time to close before its event loop does
        # (aiohttp, Graceful Shutdown).
        await asyncio.sleep(_CLOSING_SECONDS)
        if not follower.flows[key].final:
            raise ClusterError(f"flow {self.name} was deleted before it had ended")
        return follower.flows[key]


def get(
    name: str,
    *,
    namespace: str | None = None,
    context: str | None = None,
    kubeconfig: str | None = None,
) -> Run:
    """Return the flow of this name. Raises ClusterError, also if there is none."""
    target = Connection(namespace, kubeconfig, context)
    return run_of(with_client(target, lambda client: find_flow(client, name)), target)


def flows(
    selector: str | None = None,
    *,
    namespace: str | None = None,
    all_namespaces: bool = False,
    context: str | None = None,
    kubeconfig: str | None = None,
) -> list[Run]:
    """Return the flows with these labels, such as `team=vision,stage!=test`, by name; without a
    selector, all flows. Raises ClusterError, and ValueError for a selector that is none."""
    try:
        selection = Selection(selector, all_namespaces)
    except ValueError as error:
        # The message names a flag of the command line.
        raise ValueError(str(error).removeprefix("--")) from None
    target = Connection(namespace, kubeconfig, context)
    found = with_client(target, lambda client: find_flows(client, selection))
    return [run_of(flow, target) for flow in found]


def _names_steps(step: object, message: str, **whole: bool) -> bool:
    """Return whether steps are named. Raises ValueError for arguments that do not fit that; `whole`
    are those about the whole flow."""
    if step is None and message:
        raise ValueError("message is about steps: name them with step")
    for name in (name for name, given in whole.items() if given and step is not None):
        raise ValueError(f"{name} is about the whole flow: leave it out, or leave out step")
    return step is not None


def run_of(flow: JobFlow, target: Connection) -> Run:
    """Return the handle of a flow."""
    meta = flow.metadata
    return Run(meta.name, meta.namespace, meta.uid, replace(target, namespace=meta.namespace))


def with_client(target: Connection, work: Work[T]) -> T:
    """Return the result of `work` on a cluster. Raises ClusterError."""
    with _as_cluster_errors():
        return run_beside(lambda: _connected(target, work))


async def _connected(target: Connection, work: Work[T]) -> T:
    async with await connect(target) as client:
        return await work(client)


@contextmanager
def _as_cluster_errors() -> Iterator[None]:
    try:
        with logs.silenced():
            yield
    except (CommandError, ConfigError) as error:
        raise ClusterError(str(error)) from None
    except NetworkError as error:
        raise ClusterError(unreachable(error)) from None


class _Lines(LogSink):
    """Logs as lines of text."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def print(self, step: str, name: str, lines: Iterable[bytes]) -> None:
        self.found += (f"{name} | {clean(line)}" for line in lines)
