"""Vcjob specs that the steps of a flow may create, and their tasks, if the templates are known.

References to params and to the flow have their values here; others stay (`open_paths`).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from jobflow.api.flow.control import Case
from jobflow.api.flow.jobflow import JobFlow, JobTemplate
from jobflow.api.flow.step import Step
from jobflow.api.flow.traits import Stage
from jobflow.core.admission.analysis import tree_budget
from jobflow.core.admission.analysis.places import ExpressionPlace
from jobflow.core.admission.volcano.job_view import job_view
from jobflow.core.cel.references import find_references
from jobflow.core.json_values import count_values
from jobflow.core.manifests.layers import (
    Layer,
    Rank,
    count_containers,
    may_have_layers,
    own_layers,
    with_defaults,
)
from jobflow.core.manifests.volume_claims import with_claims
from jobflow.core.names import PodNames, claim_names, predict_pod_names
from jobflow.core.suggest import Suggester
from jobflow.core.work import work_of


class Owner(NamedTuple):
    """A step or a case, which may have layers."""

    step: int
    case: int | None
    """Index of the case in `switch`; None for the step."""
    path: str
    """JSON path: `spec.flows[0].switch[1]`."""
    written: Step | Case


class ResolvedLayer(NamedTuple):
    """A layer, or the params of a child flow, with the known values of its references."""

    step: int
    case: int | None
    owner: str
    """JSON path of the step or the case."""
    layer: Layer
    content: Mapping[str, Any]
    open: bool
    """Whether `content` still has references."""
    large: bool = False
    """Whether the values are too large; then `content` is `written`."""

    @property
    def path(self) -> str:
        """JSON path: `spec.flows[0].patch.jobSpec`; `spec.flows[0]` for arguments."""
        return f"{self.owner}.{self.layer.field}" if self.layer.field else self.owner

    @property
    def written(self) -> Mapping[str, Any]:
        """The content as the user wrote it, in the shape of a vcjob's spec."""
        return self.layer.content

    @property
    def place(self) -> ExpressionPlace:
        stage = Stage.RETRY if self.layer.rank is Rank.RETRY_PATCH else Stage.JOB
        return ExpressionPlace(self.step, stage)

    def written_path(self, path: str) -> str:
        """Return the path that the user knows for one in `written`, which begins with `path`."""
        below = self.layer.written_path(path.removeprefix(self.path))
        return f"{self.owner}.{below}" if below else self.owner


class ResolvedSpec(NamedTuple):
    """A vcjob spec that steps create from a known template, or from their own job."""

    template: JobTemplate | None
    """None: `work` is in its place."""
    work: ResolvedLayer | None
    base: Mapping[str, Any]
    """The spec of the template or of `work`, with the flow's jobDefaults."""
    spec: Mapping[str, Any]
    """The base with the other layers and the volumes of the flow's volumeClaims."""
    pods: PodNames
    changes: tuple[ResolvedLayer, ...]
    """The other layers, in the order in which they are merged."""

    @property
    def layers(self) -> tuple[ResolvedLayer, ...]:
        """All layers, in the order of precedence."""
        return self.changes if self.work is None else (self.work, *self.changes)

    @property
    def open(self) -> bool:
        """Whether the spec has a value that only a run knows."""
        return any(layer.open for layer in self.layers)

    @property
    def title(self) -> str:
        """Origin of the base: `template "train"`, `spec.flows[0].jobSpec`."""
        if self.work is not None:
            return self.work.path
        return f'template "{self.template.metadata.name}"' if self.template is not None else ""


class ResolvedStep(NamedTuple):
    """A step, or one of its cases, and its resolved spec."""

    step: int
    resolved: ResolvedSpec

    @property
    def pods(self) -> PodNames:
        return self.resolved.pods


def owners_of(steps: Iterable[tuple[int, Step]], path: Callable[[int], str]) -> list[Owner]:
    """Return the steps that may have layers, and their cases; `path` returns the path of a step."""
    found = []
    for i, step in steps:
        if not may_have_layers(step):
            continue
        found.append(Owner(i, None, path(i), step))
        for at, case in enumerate(step.switch or ()):
            found.append(Owner(i, at, f"{path(i)}.switch[{at}]", case))
    return found


def resolved_layers(
    flow: JobFlow, owners: Sequence[Owner], budget: tree_budget.TreeBudget, level: int
) -> Iterator[ResolvedLayer]:
    if not owners:
        return
    constants = tree_budget.Constants(flow, budget, level)
    for step, case, path, written in owners:
        for layer in own_layers(written):
            resolved = constants.insert(layer.content)
            yield ResolvedLayer(step, case, path, layer, *resolved)


class Resolver:
    def __init__(
        self,
        flow: JobFlow,
        layers: Iterable[ResolvedLayer],
        templates: Mapping[str, JobTemplate] | None,
        budget: tree_budget.TreeBudget,
        level: int,
    ) -> None:
        self._defaults = flow.spec.job_defaults
        self._claims = claim_names(flow) if flow.spec.volume_claims else {}
        self._layers: dict[tuple[int, int | None], list[ResolvedLayer]] = {}
        for layer in layers:
            self._layers.setdefault((layer.step, layer.case), []).append(layer)
        self._templates = templates or {}
        self.faults: list[tuple[ResolvedLayer, str]] = []
        """Layers that cannot be merged, and why; `resolve` fills it."""
        self._plain: dict[str, ResolvedSpec | None] = {}
        self._budget, self._level = budget, level
        self._sizes: dict[int, tuple[int, int]] = {}
        """By id of a spec or layer, which lives as long as this object."""

    def plain(self, name: str) -> ResolvedSpec | None:
        """Return the spec of a template without layers, or None if the template is not known."""
        if name not in self._plain:
            template = self._templates.get(name)
            self._plain[name] = None if template is None else self._shared(name, template)
        return self._plain[name]

    def _shared(self, name: str, template: JobTemplate) -> ResolvedSpec | None:
        """Return the spec of a template, which all flows of a tree with the same jobDefaults share;
        None if child flows have spent the budget for tasks."""
        tasks = template.spec.get("tasks")
        count = len(tasks) if isinstance(tasks, list) else 0
        self._budget.spend(tree_budget.TASK * count)
        if self._level > 1:
            self._budget.tasks -= count
            if self._budget.tasks < 0:
                self._budget.leave_out("templates", self._level)
                return None
        # child flows inherit the object of their parent, so its id says that they are equal
        key = name, id(self._defaults), bool(self._claims)
        shared: dict[tuple[str, int, bool], ResolvedSpec] = self._budget.plain
        if key not in shared:
            spec = template.spec
            if self._defaults is not None or self._claims:
                self._budget.spend(tree_budget.MERGED_VALUE * self._measure(spec)[1])
            if self._defaults is not None:
                spec = with_defaults(spec, self._defaults)
            complete, pods = with_claims(spec, self._claims), predict_pod_names(spec)
            shared[key] = ResolvedSpec(template, None, spec, complete, pods, ())
        return shared[key]

    def resolve(self, steps: Sequence[Step]) -> Iterator[ResolvedStep]:
        """Yield the resolved steps and cases, each without and with its `retry.patch`. Linear:
        layers beyond the budget are not merged, and checked alone."""
        for i, step in enumerate(steps):
            cases: Sequence[Case | None] = step.switch or (None,)
            for at, case in enumerate(cases):
                if work_of(step, case).has_steps:
                    continue
                work, changes = self._of(i, at if case is not None else None)
                resolved: ResolvedSpec | None = None
                if work is not None:
                    spec = with_defaults(work.layer.merge({}, work.content), self._defaults)
                    pods = _pod_names(spec, is_partly_open=work.open)
                    complete = with_claims(spec, self._claims)
                    resolved = ResolvedSpec(None, work, spec, complete, pods, ())
                elif (name := step.template_for(case)) is not None:
                    resolved = self.plain(name)
                if resolved is None:
                    continue
                found = [(each, each.layer.fault(resolved.base, each.content)) for each in changes]
                faults = [(each, fault) for each, fault in found if fault is not None]
                self.faults += faults
                if faults or not changes:
                    yield ResolvedStep(i, resolved)
                    continue
                first = tuple(each for each in changes if each.layer.rank is not Rank.RETRY_PATCH)
                # an attempt after a failure may have more layers than the first
                for attempt in (first,) if len(first) == len(changes) else (first, changes):
                    yield ResolvedStep(i, self._merge(resolved, attempt) if attempt else resolved)

    def _of(
        self, step: int, case: int | None
    ) -> tuple[ResolvedLayer | None, tuple[ResolvedLayer, ...]]:
        """Return what a step runs in a case, and the other layers in the order of precedence."""
        layers = [*self._layers.get((step, None), ())]
        if case is not None:
            layers += self._layers.get((step, case), ())
        # stable: the layers of a step come before those of its case
        layers.sort(key=lambda each: each.layer.rank)
        work = [each for each in layers if each.layer.rank is Rank.WORK]
        # a case replaces what its step runs
        return (work[-1] if work else None), tuple(layers[len(work) :])

    def _merge(self, resolved: ResolvedSpec, changes: tuple[ResolvedLayer, ...]) -> ResolvedSpec:
        """Return a spec with layers merged onto it, or unchanged if the budget is spent."""
        spec = resolved.base
        size, values = self._measure(spec)
        for change in changes:
            # env is added to every container
            times = count_containers(spec) if change.layer.rank is Rank.ARGUMENTS else 1
            more, added = self._measure(change.content)
            size += more * max(times, 1)
            values += added * max(times, 1)
        self._budget.spend(tree_budget.MERGED_VALUE * values)
        self._budget.merged -= size
        if self._budget.merged < 0:
            self._budget.leave_out("patched jobs", self._level)
            return resolved
        for change in changes:
            spec = change.layer.merge(spec, change.content)
        merged = resolved._replace(spec=with_claims(spec, self._claims), changes=changes)
        return merged._replace(pods=_pod_names(spec, is_partly_open=merged.open))

    def _measure(self, spec: Mapping[str, Any]) -> tuple[int, int]:
        """Return the bytes of a spec or a layer, and about how many JSON values it has."""
        if id(spec) not in self._sizes:
            text = tree_budget.encode_roughly(spec)
            self._sizes[id(spec)] = len(text), count_values(text)
        return self._sizes[id(spec)]


def _pod_names(spec: Mapping[str, Any], *, is_partly_open: bool) -> PodNames:
    tasks = spec.get("tasks")
    if is_partly_open and isinstance(tasks, list):
        # a task whose name only a run knows has no pod that could be named
        known = [
            None if isinstance(task, dict) and is_open(task.get("name")) else task for task in tasks
        ]
        spec = {**spec, "tasks": known}
    return predict_pod_names(spec)


def is_open(value: Any) -> bool:
    """Whether a value is a text with a reference in it."""
    if not isinstance(value, str) or "$(" not in value:
        return False
    return next(find_references(value, ""), None) is not None


_MAX_SUGGESTERS = 10
Tasks = Mapping[str, int | None]
"""Task name -> number of pods of a vcjob spec; None if it is no number of pods."""


class KnownTasks:
    """Tasks of a flow's steps, computed on request; equal specs share one map."""

    def __init__(self, resolved_steps: Iterable[ResolvedStep], excluded: frozenset[int]) -> None:
        """`excluded`: steps of which some template is not known, so that they may have any task."""
        self._specs: dict[int, list[Mapping[str, Any]]] = {}
        for step, resolved in resolved_steps:
            if step not in excluded:
                self._specs.setdefault(step, []).append(resolved.spec)
        self._of_steps: dict[int, Tasks] = {}
        self._of_specs: dict[int, dict[str, int | None]] = {}
        self._suggesters: dict[int, Suggester] = {}

    def __bool__(self) -> bool:
        return bool(self._specs)

    def get(self, step: int) -> Tasks | None:
        """Return the tasks of a step, with `switch` those of any case; None if not known."""
        if (found := self._of_steps.get(step)) is None and step in self._specs:
            for spec in self._specs[step]:
                if id(spec) not in self._of_specs:
                    tasks = self._of_specs[id(spec)] = {}
                    for task in job_view(spec, "").tasks:
                        if task.name is not None:
                            known = task.replicas is not None and task.replicas >= 0
                            tasks.setdefault(task.name, task.replicas if known else None)
                tasks = self._of_specs[id(spec)]
                if found is None:
                    found = tasks
                    continue
                most = dict(found)
                for name, pods in tasks.items():
                    before = most.get(name, 0)
                    most[name] = None if pods is None or before is None else max(before, pods)
                found = most
            assert found is not None
            self._of_steps[step] = found
        return found

    def nearest(self, name: str, tasks: Tasks) -> str | None:
        """Return the most similar of these tasks, which `get` returned, or None. The cost is
        bounded for any number of templates: only the first ones have a suggester."""
        if id(tasks) not in self._suggesters:
            if len(self._suggesters) == _MAX_SUGGESTERS:
                return None
            self._suggesters[id(tasks)] = Suggester([*tasks], budget=100)
        return self._suggesters[id(tasks)].nearest(name)
