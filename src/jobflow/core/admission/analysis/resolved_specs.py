"""Vcjob specs that a flow's steps and cases may create, and their tasks, for known templates.

References to params and to the flow have their values here; others stay (`open_paths`).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from jobflow.api.control import Case, Patch
from jobflow.api.jobflow import JobFlow, Step
from jobflow.api.jobtemplate import JobTemplate
from jobflow.core.admission.volcano.job_view import job_view
from jobflow.core.cel.expression import EvaluationFailure
from jobflow.core.cel.references import (
    Reference,
    ReferenceRoom,
    ReferencesTooLargeError,
    find_references,
    measure_json,
    replace_references,
)
from jobflow.core.cel.scope import EvaluationScope, resolve_references
from jobflow.core.manifests.job import changes_of, with_defaults
from jobflow.core.manifests.strategic_merge import JOB_SPEC, Shape, overlaid
from jobflow.core.pods.names import PodNames, predict_pod_names
from jobflow.core.suggest import Suggester
from jobflow.core.violations import join_path

MAX_REFERENCED = 8 << 20
"""Bytes of JSON that the references of all patches of a flow may expand to."""
MAX_MERGED = 16 << 20
"""Bytes of JSON of the specs that patches are merged onto: 5,000 steps of 3 KiB, about two seconds.
Patches beyond it are checked without their template."""
_CONSTANT_ROOTS = frozenset({"params", "flow"})
"""Roots of references whose values are known before anything runs."""


class StepPatch(NamedTuple):
    """A patch of a step or a case; it may be empty."""

    step: int
    case: int | None
    path: str
    """JSON path: `spec.flows[0].switch[1].patch`."""
    patch: Patch


class ResolvedPatch(NamedTuple):
    """A patch that is not empty, with the known values of its references."""

    step: int
    """Position of the step."""
    case: int | None
    """Index of the case in `switch`; None for the step's own patch."""
    path: str
    """JSON path: `spec.flows[0].patch.jobSpec`."""
    written: Mapping[str, Any]
    """The patch as the user wrote it."""
    content: Mapping[str, Any]
    """The patch with the known values in place of references."""
    open: bool
    """Whether `content` still has references."""
    large: bool = False
    """Whether the values are too large; then `content` is `written`."""


class ResolvedSpec(NamedTuple):
    """A vcjob spec that steps create from a known template."""

    template: JobTemplate
    base: Mapping[str, Any]
    """The template's spec with the flow's jobDefaults."""
    spec: Mapping[str, Any]
    """The base with the patches merged in."""
    pods: PodNames
    changes: tuple[ResolvedPatch, ...]
    """The patches, in the order in which they are merged."""

    @property
    def open(self) -> bool:
        """Whether the spec has a value that only a run knows."""
        return any(patch.open for patch in self.changes)


class ResolvedStep(NamedTuple):
    """A step, or one of its cases, and its resolved spec."""

    step: int
    """Position of the step."""
    resolved: ResolvedSpec

    @property
    def pods(self) -> PodNames:
        """The names of its pods."""
        return self.resolved.pods


def step_patches(steps: Iterable[tuple[int, Step]], path: Callable[[int], str]) -> list[StepPatch]:
    """Return the patches of these steps and of their cases; `path` returns the path of a step."""
    found = []
    for i, step in steps:
        if step.patch is not None:
            found.append(StepPatch(i, None, f"{path(i)}.patch", step.patch))
        for at, case in enumerate(step.switch or ()):
            if case.patch is not None:
                found.append(StepPatch(i, at, f"{path(i)}.switch[{at}].patch", case.patch))
    return found


def resolved_patches(flow: JobFlow, patches: Sequence[StepPatch]) -> Iterator[ResolvedPatch]:
    """Yield the patches that are not empty, with the known values of their references."""
    scope, room = EvaluationScope(flow, lambda name: None), ReferenceRoom(MAX_REFERENCED)
    get_constant = cache(lambda text: resolve_references(text, scope))
    for step, case, path, patch in patches:
        if (written := changes_of(patch)) is not None:
            field = "jobSpec" if patch.job_spec else "spec"
            content, is_open, is_large = _with_constants(written, get_constant, room)
            yield ResolvedPatch(step, case, f"{path}.{field}", written, content, is_open, is_large)


def _with_constants(
    written: dict[str, Any], get_constant: Callable[[str], Any], room: ReferenceRoom
) -> tuple[dict[str, Any], bool, bool]:
    """Return a patch with the known values, whether others are open, and whether it is too
    large."""
    is_open = False

    def value(reference: Reference) -> Any:
        nonlocal is_open
        text = f"$({reference.path})"
        if reference.root in _CONSTANT_ROOTS:
            found = get_constant(text)
            if not isinstance(found, EvaluationFailure):
                return found
        is_open = True
        return text

    try:
        return replace_references(written, value, room), is_open, False
    except ReferencesTooLargeError:
        return written, True, True


class Resolver:
    """Resolves the steps of a flow to specs."""

    def __init__(
        self, flow: JobFlow, patches: Sequence[ResolvedPatch], templates: Mapping[str, JobTemplate]
    ) -> None:
        self._defaults = flow.spec.job_defaults
        self._patches = {(patch.step, patch.case): patch for patch in patches}
        self._templates = templates
        self._plain: dict[str, ResolvedSpec | None] = {}
        self._sizes: dict[int, int] = {}
        """By id of a spec or patch, which lives as long as this object."""

    def plain(self, name: str) -> ResolvedSpec | None:
        """Return the spec of a template without a patch, or None if the template is not known."""
        if name not in self._plain:
            template = self._templates.get(name)
            self._plain[name] = None if template is None else self._without_patch(template)
        return self._plain[name]

    def resolve(self, steps: Sequence[Step]) -> Iterator[ResolvedStep]:
        """Yield the resolved steps and cases. Linear: patches beyond MAX_MERGED are not merged."""
        room = MAX_MERGED
        for i, step in enumerate(steps):
            cases: Sequence[Case | None] = step.switch or (None,)
            of_step = self._patches.get((i, None)) if self._patches else None
            for at, case in enumerate(cases):
                resolved = self.plain(step.template_for(case))
                if resolved is None:
                    continue
                of_case = self._patches.get((i, at)) if case is not None else None
                patches = tuple(patch for patch in (of_step, of_case) if patch is not None)
                if patches:
                    room -= self._size(resolved.base)
                    room -= sum(self._size(patch.content) for patch in patches)
                    if room >= 0:
                        resolved = _patched(resolved, patches)
                yield ResolvedStep(i, resolved)

    def _size(self, spec: Mapping[str, Any]) -> int:
        if id(spec) not in self._sizes:
            self._sizes[id(spec)] = measure_json(spec)
        return self._sizes[id(spec)]

    def _without_patch(self, template: JobTemplate) -> ResolvedSpec:
        spec = template.spec
        if self._defaults is not None:
            spec = with_defaults(spec, self._defaults)
        return ResolvedSpec(template, spec, spec, predict_pod_names(spec), ())


def _patched(resolved: ResolvedSpec, patches: tuple[ResolvedPatch, ...]) -> ResolvedSpec:
    spec: Mapping[str, Any] = resolved.base
    for patch in patches:
        spec = overlaid(spec, patch.content)
    is_open = any(patch.open for patch in patches)
    pods = predict_pod_names(_without_open_tasks(spec) if is_open else spec)
    return resolved._replace(spec=spec, pods=pods, changes=patches)


def _without_open_tasks(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    tasks = spec.get("tasks")
    if not isinstance(tasks, list):
        return spec
    known = [
        None if isinstance(task, dict) and is_open(task.get("name")) else task for task in tasks
    ]
    return {**spec, "tasks": known}


def is_open(value: Any) -> bool:
    """Whether a value is a text with a reference in it."""
    if not isinstance(value, str) or "$(" not in value:
        return False
    return next(find_references(value, ""), None) is not None


def open_paths(spec: Mapping[str, Any]) -> Iterator[str]:
    """Yield the JSON paths in a merged spec of values that only a run knows. If the merge key of a
    list element is open, so is the whole element: it may turn out to be another one."""
    work: list[tuple[Any, Shape, str]] = [(spec, JOB_SPEC, "")]
    while work:
        node, shape, at = work.pop()
        if isinstance(node, dict):
            if any(is_open(node.get(key)) for key in shape.keys):
                yield at
            else:
                work += [
                    (value, shape.below(key), join_path(at, key)) for key, value in node.items()
                ]
        elif isinstance(node, list):
            work += [(value, shape, f"{at}[{i}]") for i, value in enumerate(node)]
        elif is_open(node):
            yield at


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
        self._of_specs: dict[int, Tasks] = {}
        self._suggesters: dict[int, Suggester] = {}

    def __bool__(self) -> bool:
        return bool(self._specs)

    def get(self, step: int) -> Tasks | None:
        """Return the tasks of a step, with `switch` those of any case; None if not known."""
        if (found := self._of_steps.get(step)) is None and step in self._specs:
            for spec in self._specs[step]:
                if (tasks := self._of_specs.get(id(spec))) is None:
                    tasks = self._of_specs[id(spec)] = _tasks(spec)
                found = tasks if found is None else _either(found, tasks)
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


def _either(one: Tasks, other: Tasks) -> Tasks:
    tasks = dict(one)
    for name, pods in other.items():
        before = tasks.get(name, 0)
        tasks[name] = None if pods is None or before is None else max(before, pods)
    return tasks


def _tasks(spec: Mapping[str, Any]) -> Tasks:
    tasks: dict[str, int | None] = {}
    for task in job_view(spec, "", None).tasks:
        if task.name is not None:
            pods = task.replicas
            tasks.setdefault(task.name, pods if pods is not None and pods >= 0 else None)
    return tasks
