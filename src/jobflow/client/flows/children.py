"""Child flows of flows on a cluster, and their places below an outer flow."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from jobflow.api import labels
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import RunCondition
from jobflow.api.resources import JOBFLOWS
from jobflow.client.conditions import condition_of
from jobflow.client.errors import FAILED, UNUSABLE, CommandError
from jobflow.client.flows.find_flow import find_flow, raise_unless_missing, to_flow
from jobflow.core.names import format_place, qualify_name, root_label, to_label_value
from jobflow.core.work import may_run_steps
from jobflow.kube.answers import RawList
from jobflow.kube.client import ApiError, Client


async def read_children(client: Client, flows: Iterable[JobFlow]) -> Mapping[str, JobFlow]:
    """Return the child flows below these flows, at any level, by name. The names of flows in other
    namespaces do not matter, because a flow names only its own children. Raises CommandError."""
    found: dict[str, JobFlow] = {}
    # flows with one root share a request
    for namespace, root in dict.fromkeys(
        (flow.metadata.namespace, root_label(flow)) for flow in flows if has_children(flow)
    ):
        query = [("labelSelector", f"{labels.ROOT}={root}")]
        try:
            async for page in client.list(JOBFLOWS, RawList, namespace=namespace, query=query):
                flows_of_page = map(to_flow, page.items or ())
                found |= {each.metadata.name: each for each in flows_of_page}
        except ApiError as error:
            if error.code == 403:
                needs = f'reading child flows needs the right to list JobFlows in "{namespace}"'
                why = f"{needs}, which the role view has: {error.message}"
                raise CommandError(FAILED, why) from None
            raise_unless_missing(error)
    return found


async def find_below(
    client: Client, flow: JobFlow, text: str | None
) -> tuple[JobFlow, tuple[str, ...], str | None]:
    """Return for `train/0/fit` the child flow, the steps that lead to it, and the rest of the path.
    The flow itself if the text names one of its steps or items, or is None. Raises CommandError."""
    above: tuple[str, ...] = ()
    while text is not None and (found := _child_on_path(flow, text)) is not None:
        parent, child, text = found
        above = (*above, parent)
        if not child:
            why = f'step "{"/".join(above)}" has not started, so it has no flow yet'
            raise CommandError(UNUSABLE, why)
        flow = await find_flow(client, child)
    return flow, above, text


def _child_on_path(flow: JobFlow, text: str) -> tuple[str, str, str] | None:
    """Return for `train/0/fit` the step `train/0`, its child flow, or "" before it has started, and
    the rest of the path. None if the text names a step or an item of the flow itself."""
    steps = {step.name: step for step in flow.all_steps}
    name, _, rest = text.partition("/")
    if (step := steps.get(name)) is None or not may_run_steps(step):
        return None
    run: RunCondition | None = condition_of(flow, name)
    if step.has_runs:
        number, _, rest = rest.partition("/")
        runs = {str(each.index): each for each in condition_of(flow, name).runs or ()}
        run, name = runs.get(number), f"{name}/{number}"
    return (name, run.flow if run is not None else "", rest) if rest else None


def has_children(flow: JobFlow) -> bool:
    """Return whether the status of a flow names a child flow."""
    conditions = (flow.status.conditions or {}).values()
    return any(run.flow for each in conditions for run in (each, *(each.runs or ())))


def may_have_children(flow: JobFlow, step: str | None = None) -> bool:
    """Return whether a step of a flow, or the step with this name, may run a child flow."""
    return any(may_run_steps(each) for each in flow.all_steps if step in (None, each.name))


@dataclass(frozen=True)
class PlacedFlow:
    """A flow, and the steps that lead to it."""

    flow: JobFlow
    path: tuple[str, ...] = ()
    """For each flow above it the step that runs the next one: `train`, or `train/0` of an item."""

    @cached_property
    def prefix(self) -> str:
        """`train/0/`; "" for the flow that was asked for."""
        return "".join(f"{step}/" for step in self.path)

    @cached_property
    def step_names(self) -> Mapping[str, str]:
        """The names of the steps by their values in labels."""
        return {to_label_value(step.name): step.name for step in self.flow.all_steps}


class FlowFamily:
    """A flow, and the flows below it as far as they are known."""

    def __init__(
        self, top: JobFlow, children: Iterable[JobFlow] = (), above: tuple[str, ...] = ()
    ) -> None:
        """`above`: the path to `top`, if that is a child flow itself."""
        self.top = top
        self._above = above
        self._flows: dict[str, JobFlow] = {}
        self._names: dict[str, str] = {}
        self._placed: dict[str, PlacedFlow | None] = {}
        for flow in (top, *children):
            self.add(flow)

    def add(self, flow: JobFlow) -> bool:
        """Add a child flow, or a later state of a flow; return whether it was unknown before."""
        name = flow.metadata.name
        before = self._flows.get(name)
        self._flows[name] = flow
        if flow.metadata.uid == self.top.metadata.uid:
            self.top = flow
        # another UID is another flow of the same name
        if before is not None and before.metadata.uid == flow.metadata.uid:
            return False
        # vcjobs and pods name their flow by this value of a label
        self._names[to_label_value(qualify_name(flow.metadata.namespace, name))] = name
        # its children may be known already, and have a place now
        self._placed.clear()
        return True

    def find(self, created_by: str) -> PlacedFlow | None:
        """Return the known flow below `top` that a label of a vcjob or pod names."""
        name = self._names.get(created_by)
        return self._place(name) if name is not None else None

    def below(self) -> Iterator[PlacedFlow]:
        """Yield the known flows below `top`."""
        for name in self._flows:
            placed = self._place(name)
            if placed is not None and placed.flow is not self.top:
                yield placed

    def is_known(self, created_by: str) -> bool:
        return created_by in self._names

    def _place(self, name: str) -> PlacedFlow | None:
        if name in self._placed:  # asked for each pod, and each asks for the flow above
            return self._placed[name]
        flow, placed = self._flows[name], None
        owner = flow.metadata.controller
        parent = self._flows.get(owner.name) if owner is not None else None
        if flow.metadata.uid == self.top.metadata.uid:
            placed = PlacedFlow(flow, self._above)
        # else it is of another branch, or of a deleted flow
        elif owner is not None and parent is not None and parent.metadata.uid == owner.uid:
            if (above := self._place(owner.name)) is not None:
                own = flow.metadata.annotations or {}
                step, index = own.get(labels.STEP, ""), own.get(labels.INDEX)
                placed = PlacedFlow(flow, (*above.path, format_place(step, index)))
        self._placed[name] = placed
        return placed
