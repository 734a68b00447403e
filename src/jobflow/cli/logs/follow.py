"""Logs of a flow's pods, also of child flows, followed together until the flow has ended."""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.resources import PODS
from jobflow.api.volcano.pod import Pod
from jobflow.cli.logs.printer import LogPrinter
from jobflow.client.errors import FAILED, CommandError, print_error
from jobflow.client.flows.children import FlowFamily, may_have_children
from jobflow.client.flows.follow import FlowFollower, following, following_children
from jobflow.client.logs import selection as choice
from jobflow.client.logs.read import read_logs, report_none, warn
from jobflow.client.logs.selection import LogSelection, LogTarget, find_targets, is_over
from jobflow.client.logs.stream import ContainerFollower
from jobflow.kube.cache import Cache
from jobflow.kube.client import NETWORK_ERRORS, ApiError, Client
from jobflow.kube.reflector import Reflector
from jobflow.runtime.event_loop import either

MOST_STREAMS = 50
"""Logs that are followed at once."""


async def follow_logs(client: Client, flow: JobFlow, selection: LogSelection = choice.ALL) -> None:
    """Print the logs of all pods as they are written, also of pods that start later, until the flow
    or the selected step has ended and all its logs are read. Raises OutputClosed."""
    if is_over(flow, selection):
        await read_logs(client, flow, selection, LogPrinter([step.name for step in flow.all_steps]))
        return
    pods = await choice.list_pods(client, flow, selection)
    family = await choice.read_family(client, flow, selection)
    if not choice.pods_below(family, pods, selection):
        print_error(f"{choice.why_none(family, (), selection)}; waiting", severity="info")
    try:
        # a follower keeps a connection for each log
        async with client.sibling() as streams, asyncio.TaskGroup() as tasks:
            await _LogsFollower(client, streams, family, selection, tasks).run(pods)
    except BaseExceptionGroup as group:
        # the first error has cancelled the other tasks
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        raise error from None


@dataclass(eq=False)
class _LogsFollower:
    _client: Client
    _streams: Client
    """For logs alone, because they may take all connections."""
    _family: FlowFamily
    _selection: LogSelection
    _tasks: asyncio.TaskGroup

    def __post_init__(self) -> None:
        selection, family = self._selection, self._family
        self._for_later = LogSelection(timestamps=selection.timestamps)
        """Selection for pods that start later, whose whole log is new."""
        self._printer = LogPrinter([step.name for step in family.top.all_steps])
        self._slots = asyncio.Semaphore(MOST_STREAMS)
        self._followed: dict[str, dict[str, ContainerFollower]] = {}
        """By UID of the pod and container."""
        self._unplaced: dict[str, Pod] = {}
        """Pods whose child flow is not known yet, by UID."""
        self._running: set[asyncio.Task[None]] = set()
        self._pod_ended = asyncio.Event()
        self._has_warned = False
        self._refused = asyncio.Event()
        self._children: Sequence[FlowFollower] = ()
        self._reflectors: list[Reflector[Pod]] = []
        namespace = family.top.metadata.namespace
        for query in choice.pods_queries(family.top, selection):
            cache: Cache[Pod] = Cache(self._update)
            cache.on_state = self._check_state
            reflector = Reflector(self._client, PODS, Pod, cache, namespace=namespace, query=query)
            self._reflectors.append(reflector)

    async def run(self, pods: Sequence[Pod]) -> None:
        for target in find_targets(self._family, pods, self._selection):
            # --tail and --since would leave out new lines of a container that has not started
            waits = choice.why_waiting(target.pod, target.container)
            self._follow(target, self._for_later if waits else self._selection)
        watching = [asyncio.create_task(each.run()) for each in self._reflectors]
        try:
            async with AsyncExitStack() as stack:
                await self._until_over(stack)
                await self._catch_up()
            while self._running:  # logs end after their containers
                await asyncio.wait(self._running)
        finally:
            for task in watching:
                task.cancel()
            await asyncio.wait(watching)
        if not self._followed:
            found = [pod for each in self._reflectors for pod in each.cache]
            report_none(self._family, found, self._selection)

    async def _until_over(self, stack: AsyncExitStack) -> None:
        """Return once no further pod of the selection can start."""
        top = self._family.top
        if may_have_children(top, self._selection.step):
            children = following_children(self._client, [top], self._add_child)
            self._children = await stack.enter_async_context(children)
        flows = await stack.enter_async_context(following(self._client, [top]))

        def has_ended(flows: FlowFollower) -> bool:
            [flow] = flows.flows.values()
            self._family.add(flow)
            if flows.deleted:
                print_error(f"JobFlow {flow.metadata.name} was deleted", severity="warning")
            return bool(flows.deleted) or is_over(flow, self._selection)

        await either(flows.until(has_ended), self._pod_ended.wait(), self._refused.wait())
        if self._refused.is_set():
            why = "the logs cannot be followed: this needs the right to watch pods"
            raise CommandError(FAILED, why)

    def _check_state(self) -> None:
        if any(each.cache.served is False for each in self._reflectors):
            self._refused.set()

    async def _catch_up(self) -> None:
        """Find the last pods."""
        try:  # the watch of pods may be behind that of the flow
            for flows in self._children:
                await flows.reflector.catch_up()
            for each in self._reflectors:
                await each.catch_up()
        except (ApiError, *NETWORK_ERRORS) as error:
            print_error(f"logs of the last pods may be missing: {error}", severity="warning")
        present = {pod.metadata.uid for each in self._reflectors for pod in each.cache}
        is_complete = all(each.cache.synced for each in self._reflectors)
        for uid, followers in self._followed.items():
            for follower in followers.values():
                follower.expect_no_start()
                if is_complete and uid not in present:
                    follower.update(None)  # deleted while nobody watched

    def _add_child(self, flow: JobFlow) -> None:
        if self._family.add(flow):
            waiting, self._unplaced = self._unplaced, {}
            for pod in waiting.values():
                self._update(None, pod)

    def _update(self, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        assert pod is not None
        uid = pod.metadata.uid
        followers = self._followed.get(uid, {})
        for follower in followers.values():
            follower.update(new)
        self._unplaced.pop(uid, None)
        if new is not None and not self._family.is_known(choice.created_by(new)):
            self._unplaced[uid] = new  # the watch of child flows may be behind that of pods
            return
        for target in find_targets(self._family, [new] if new else [], self._selection):
            if target.container not in followers:
                self._follow(target, self._for_later)

    def _follow(self, target: LogTarget, options: LogSelection) -> None:
        follower = ContainerFollower(self._streams, target, options, self._printer, self._slots)
        self._followed.setdefault(target.pod.metadata.uid, {})[target.container] = follower
        if self._slots.locked() and not self._has_warned:
            self._has_warned = True
            print_error(
                f"{MOST_STREAMS} logs are followed at once; others begin when one of these ends",
                severity="warning",
            )
        task = self._tasks.create_task(self._run(follower))
        self._running.add(task)
        task.add_done_callback(self._running.discard)  # asyncio itself keeps no task

    async def _run(self, follower: ContainerFollower) -> None:
        try:
            await follower.run()
        except ApiError as error:
            choice.check_rights(error, self._family.top)
            warn(follower.target, f"the log is incomplete: {error.message}")
        # a pod that is named starts no further container once the last has ended
        if self._selection.pod is not None and len(self._running) == 1:
            self._pod_ended.set()
