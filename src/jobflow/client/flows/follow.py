"""Flows of a cluster and their child flows, followed by a watch while a command runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from jobflow.api import labels
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.resources import JOBFLOWS
from jobflow.client.errors import FAILED, CommandError, print_error
from jobflow.client.flows.children import may_have_children
from jobflow.client.flows.find_flow import raise_unless_missing
from jobflow.client.flows.live import LiveObjects
from jobflow.core.names import root_label
from jobflow.kube.answers import NETWORK_ERRORS
from jobflow.kube.cache import Key, key_of
from jobflow.kube.client import ApiError, Client, Query


class Display(AbstractContextManager["Display"]):
    """Shows nothing; its subclasses show flows. A context manager while the flows run."""

    shows_children = False
    """Whether the child flows of the flows are shown too."""

    def __exit__(self, *exc: object) -> None:
        return None

    def show(self, flow: JobFlow) -> None:
        """Show the flow as it is now."""

    def show_child(self, flow: JobFlow) -> None:
        """Show a child flow as it is now, below the flow that runs it."""

    def remove(self, flow: JobFlow) -> None:
        """Show that the flow was deleted."""


Show = Callable[[JobFlow], None]
_NEEDS_RIGHTS = "the flows cannot be watched: this needs the rights to list and watch JobFlows"
_MOST_ROOTS = 20
"""Outermost flows that a label selector names; with more, it selects all child flows."""


def _ignore(flow: JobFlow) -> None:
    return None


@dataclass(frozen=True, slots=True)
class Scope:
    """The flows to follow: those of a request that are `wanted`."""

    namespace: str = ""
    """"" is all namespaces."""
    query: Query = ()
    wanted: Callable[[JobFlow], bool] = lambda flow: True


class FlowFollower(LiveObjects[JobFlow]):
    """The flows as last seen. Use `following` or `follow_scope`."""

    def __init__(self, client: Client, scope: Scope, show: Show, remove: Show) -> None:
        super().__init__(client, JOBFLOWS, JobFlow, namespace=scope.namespace, query=scope.query)
        self.cache.on_state = self._note_state
        self.flows: dict[Key, JobFlow] = {}
        """In the order in which they were first seen; deleted ones in their last state."""
        self.deleted: set[Key] = set()
        """Flows that are gone, or were replaced by another of the same name."""
        self._wanted = scope.wanted
        self._show = show
        self._remove = remove
        self.show_error: OSError | None = None
        """Error of showing a flow, such as a closed pipe, which `until` raises."""
        self._event = asyncio.Event()
        self.changed.watch(self._event)
        self._warned = False

    @property
    def all_final(self) -> bool:
        return all(flow.final or key in self.deleted for key, flow in self.flows.items())

    async def until(self, is_done: Callable[[FlowFollower], bool]) -> None:
        """Return once `is_done`, which is asked at each `changed`. Raises CommandError if flows can
        no longer be watched, and the OSError of showing them, such as a closed pipe."""
        while True:
            if self.show_error is not None:
                raise self.show_error
            if is_done(self):
                return
            # without the right, or without the kind, it would wait for ever
            if self.cache.served is False:
                raise CommandError(FAILED, _NEEDS_RIGHTS)
            if self.task is not None and self.task.done():
                self.task.result()
            await self._event.wait()
            self._event.clear()

    def _update(self, old: JobFlow | None, new: JobFlow | None) -> None:
        flow = new if new is not None else old
        # the request may bring more than was asked for
        if flow is None or not self._wanted(flow):
            return
        known = self.flows.get(key := key_of(flow))
        if new is not None and known is not None:
            before, now = known.metadata, new.metadata
            if (before.uid, before.resource_version) == (now.uid, now.resource_version):
                return  # a list brings what was read before
        self.flows[key] = flow
        try:
            self._show(flow)
            if new is None:
                self.deleted.add(key)
                self._remove(flow)
            else:
                self.deleted.discard(key)
        except OSError as error:  # the reflector would retry, as after a network error
            self.show_error = error
        self.changed.notify()

    def _note_state(self) -> None:
        if self.cache.failing and not self._warned:
            trouble = f"the flows cannot be followed at present ({self.reflector.trouble})"
            print_error(f"{trouble}; trying again", severity="warning")
        self._warned = self.cache.failing
        self.changed.notify()


@asynccontextmanager
async def following(
    client: Client, flows: Sequence[JobFlow], show: Show = _ignore, remove: Show = _ignore
) -> AsyncIterator[FlowFollower]:
    """Follow these flows while the body runs. `show` gets each flow as it is now, then at each
    change; `remove` gets the last state of a flow that was deleted. Raises CommandError."""
    uids = {flow.metadata.uid for flow in flows}
    keys = [key_of(flow) for flow in flows]
    scope = scope_of(keys, lambda flow: flow.metadata.uid in uids)
    async with follow_scope(client, scope, show, remove, seen=flows) as follower:
        yield follower


def scope_of(keys: Collection[Key], wanted: Callable[[JobFlow], bool]) -> Scope:
    """Return the narrowest request that has the flows with these keys."""
    namespaces = {namespace for namespace, _ in keys}
    # a fieldSelector takes one name
    names = {name for _, name in keys}
    namespace = next(iter(namespaces)) if len(namespaces) == 1 else ""
    query = [("fieldSelector", f"metadata.name={name}") for name in names if len(names) == 1]
    return Scope(namespace, query, wanted)


@asynccontextmanager
async def follow_scope(
    client: Client,
    scope: Scope,
    show: Show = _ignore,
    remove: Show = _ignore,
    *,
    seen: Sequence[JobFlow] = (),
) -> AsyncIterator[FlowFollower]:
    """Follow all flows of a scope while the body runs; `seen` were read before. Raises
    CommandError, or one of NETWORK_ERRORS, if the flows cannot be listed."""
    follower = FlowFollower(client, scope, show, remove)
    for flow in seen:
        follower.cache.learn(flow)
    try:
        # before the body runs, so that it begins with the flows as they are now
        await follower.reflector.reread()
    except ApiError as error:
        # they could be read, so only the right to list or watch is missing
        if seen and error.code in (403, 404):
            raise CommandError(FAILED, f"{_NEEDS_RIGHTS}: {error.message}") from None
        raise_unless_missing(error)
        raise
    follower.start()
    try:
        yield follower
    finally:
        await follower.stop()


@asynccontextmanager
async def following_children(
    client: Client, flows: Sequence[JobFlow], show: Show
) -> AsyncIterator[Sequence[FlowFollower]]:
    """Follow the child flows below these flows, at any level, also those that are created while the
    body runs. `show` gets each as it is now, then at each change. Yield a follower for each
    namespace, but not for those whose child flows cannot be listed, which is a warning."""
    roots: dict[str, set[str]] = {}
    for flow in filter(may_have_children, flows):
        roots.setdefault(flow.metadata.namespace, set()).add(root_label(flow))
    async with AsyncExitStack() as stack:
        followers: list[FlowFollower] = []
        # children are in the namespace of their parent
        for namespace, names in roots.items():
            selector = labels.ROOT
            if len(names) <= _MOST_ROOTS:
                selector += f" in ({','.join(sorted(names))})"
            query = [("labelSelector", selector)]
            scope = Scope(
                namespace, query, lambda flow: root_label(flow) in roots[flow.metadata.namespace]
            )
            try:
                follower = follow_scope(client, scope, show)
                followers.append(await stack.enter_async_context(follower))
            # the flows themselves can be followed without them
            except (CommandError, *NETWORK_ERRORS) as error:
                print_error(f"child flows cannot be followed: {error}", severity="warning")
        yield followers
