"""The watches of the selected step of a flow, beside that of the flow itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.resources import PODS
from jobflow.api.volcano.pod import Pod
from jobflow.client.conditions import read_index
from jobflow.client.flows.children import FlowFamily, may_have_children
from jobflow.client.flows.live import Signal
from jobflow.client.logs.selection import LogSelection, pods_below, pods_queries
from jobflow.core.names import format_place
from jobflow.kube.client import Query
from jobflow.page.watches.flows import LiveFlow, one_flow
from jobflow.page.watches.live import Live, Watches
from jobflow.page.watches.readings import StepReadings


@dataclass(frozen=True, slots=True)
class StepChoice:
    """The selected step, as the address names it."""

    step: str
    index: int | None = None
    """The item of a forEach or the run of a repeat, from 0."""

    @classmethod
    def of(cls, flow: JobFlow, text: str) -> StepChoice | None:
        """Return the choice of `STEP` or `STEP/INDEX`; None if the flow has no such step."""
        names = {step.name for step in flow.all_steps}
        if text in names:
            return cls(text)
        name, _, number = text.rpartition("/")
        index = read_index(number)
        return cls(name, index) if index is not None and name in names else None

    def __str__(self) -> str:
        return format_place(self.step, self.index)


@dataclass(frozen=True, slots=True)
class LiveStep:
    """The pods and the child flows of a step, or of an item of it."""

    choice: StepChoice
    _pods: Sequence[Live[Pod]]
    _children: Live[JobFlow] | None

    @property
    def lives(self) -> list[Live[Pod] | Live[JobFlow]]:
        return [*self._pods, *([self._children] if self._children is not None else ())]

    @property
    def refusal(self) -> str:
        """That the user may not read pods or child flows; "" if he may."""
        for live in self.lives:
            error = live.reflector.error
            if live.cache.served is False and error is not None:
                kind, where = live.resource.qualified, f'in namespace "{live.namespace}"'
                return f"You may not list and watch {kind} {where}: {error.message}"
        return ""

    @property
    def all_pods(self) -> Iterator[Pod]:
        """The pods that the labels select."""
        return (pod for live in self._pods for pod in live.cache)

    def family(self, flow: JobFlow) -> FlowFamily:
        return FlowFamily(flow, self._children.cache if self._children is not None else ())

    def pods(self, flow: JobFlow) -> list[Pod]:
        """Return the pods of the step or item, and of the flows below it."""
        selection = LogSelection(step=self.choice.step, index=self.choice.index)
        return pods_below(self.family(flow), self.all_pods, selection)

    def child(self, name: str) -> JobFlow | None:
        children = self._children.cache if self._children is not None else ()
        return next((each for each in children if each.metadata.name == name), None)


@dataclass(frozen=True, slots=True)
class LivePage:
    """A flow, and the selected step of it."""

    flow: LiveFlow
    step: LiveStep | None
    readings: StepReadings | None
    changed: Signal


@asynccontextmanager
async def live_page(
    watches: Watches, namespace: str, name: str, step: str, *, reads: bool = True
) -> AsyncIterator[LivePage]:
    """Provide a flow and its `STEP` or `STEP/INDEX`. `reads`: also what is read now and then."""
    client = watches.client
    async with AsyncExitStack() as stack:
        live = await stack.enter_async_context(one_flow(watches, namespace, name))
        flow = live.flow
        choice = StepChoice.of(flow, step) if flow is not None else None
        # the page draws that there is none, and its stream goes on until there is
        if flow is None or choice is None:
            yield LivePage(live, None, None, live.changed)
            return

        async def watch_pods(query: Query) -> Live[Pod]:
            pods = watches.using(
                ("pods", namespace, str(query)),
                lambda: Live(client, PODS, Pod, namespace=namespace, query=query),
            )
            return await stack.enter_async_context(pods)

        selection = LogSelection(step=choice.step, index=choice.index)
        pods = await asyncio.gather(*map(watch_pods, pods_queries(flow, selection)))
        children = None
        if may_have_children(flow, choice.step):
            # the flow may show them too: one watch serves both
            children = live.below(flow)
            await children.answered()
        chosen = LiveStep(choice, pods, children)
        signals = [each.changed for each in (live, *chosen.lives)]
        readings = None
        if reads:
            about = choice.step, choice.index
            readings = await stack.enter_async_context(
                watches.using(
                    ("readings", namespace, name, str(choice)),
                    lambda: StepReadings(client, live, *about, chosen.pods, signals[:]),
                )
            )
            signals.append(readings.changed)
        yield LivePage(live, chosen, readings, Signal(signals))
