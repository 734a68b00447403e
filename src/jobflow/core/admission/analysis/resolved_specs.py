"""The vcjob specs that a flow's steps may have, as far as their templates are known. It refuses
nothing.

A step with `switch` may have as many as it has cases. References to params and to the flow itself
have their values here; what only a run can tell (`$(item)`, outputs) stays as it stands, and
`unknown` says where.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from jobflow.api.control import Case, Patch
from jobflow.api.jobflow import JobFlow, Step
from jobflow.api.jobtemplate import JobTemplate
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
from jobflow.core.violations import join_path

MAX_OF_ALL = 8 << 20
"""Bytes of JSON that the references of all patches of a flow may stand for: each value is copied
into the spec that is checked."""
MOST_MERGED = 16 << 20
"""Bytes of JSON of the specs that patches are merged onto: 5,000 steps of 3 KiB, about two seconds.
What is beyond is looked at without its template."""
_FROM_THE_START = frozenset({"params", "flow"})
"""Roots of references whose values are known before anything has run."""


class ResolvedPatch(NamedTuple):
    """A patch that says something."""

    step: int
    """The step's position among all of the flow."""
    case: int | None
    """The case of `switch` it belongs to; None: it is the step's own."""
    path: str
    """Its JSON path: `spec.flows[0].patch.jobSpec`."""
    written: Mapping[str, Any]
    """As it stands."""
    said: Mapping[str, Any]
    """With the values of its references, as far as they are known."""
    open: bool
    """Whether there are others."""
    large: bool = False
    """Whether its references stand for too much; then `said` is as it stands."""


class ResolvedSpec(NamedTuple):
    """A vcjob that steps come to, whose template is known."""

    template: JobTemplate
    base: Mapping[str, Any]
    """The template's spec with the flow's jobDefaults."""
    spec: Mapping[str, Any]
    """The vcjob spec that it has now: the base with the patches merged in."""
    pods: PodNames
    changes: tuple[ResolvedPatch, ...]
    """The patches, in the order in which they are merged."""

    @property
    def open(self) -> bool:
        """Whether there is something in the spec that only a run can tell."""
        return any(change.open for change in self.changes)


class ResolvedStep(NamedTuple):
    """A step whose template is known; with `switch` one of its cases."""

    step: int
    """Its position among all steps of the flow."""
    kind: ResolvedSpec

    @property
    def spec(self) -> Mapping[str, Any]:
        """The vcjob spec that it has now."""
        return self.kind.spec

    @property
    def pods(self) -> PodNames:
        """The names of its pods."""
        return self.kind.pods


class Patched(NamedTuple):
    """A patch, whatever it says."""

    step: int
    case: int | None
    path: str
    """Its JSON path: `spec.flows[0].switch[1].patch`."""
    patch: Patch


def patches_of(steps: Iterable[tuple[int, Step]], path: Callable[[int], str]) -> Iterator[Patched]:
    """Each patch of these steps, given by position, and of their cases, in the order of the flow.
    `path`: the JSON path of a step by its position."""
    for i, step in steps:
        if step.patch is not None:
            yield Patched(i, None, f"{path(i)}.patch", step.patch)
        for at, case in enumerate(step.switch or ()):
            if case.patch is not None:
                yield Patched(i, at, f"{path(i)}.switch[{at}].patch", case.patch)


def changes(flow: JobFlow, patches: Sequence[Patched]) -> Iterator[ResolvedPatch]:
    """Those of the patches that say something."""
    known, room = _Values(flow), ReferenceRoom(MAX_OF_ALL)
    for step, case, path, patch in patches:
        if (written := changes_of(patch)) is not None:
            field = "jobSpec" if patch.job_spec else "spec"
            said, is_open, large = _with_known_values(written, known, room)
            yield ResolvedPatch(step, case, f"{path}.{field}", written, said, is_open, large)


class _Values:
    """What references stand for before anything has run, each looked up once for a flow."""

    def __init__(self, flow: JobFlow) -> None:
        self._seen = EvaluationScope(flow, lambda name: None)
        self._found: dict[str, Any] = {}

    def of(self, reference: Reference) -> Any:
        """The value; a Failure where only a run can tell it."""
        if reference.root not in _FROM_THE_START:
            return _LATER
        path = reference.path
        if path not in self._found:
            self._found[path] = resolve_references(f"$({path})", self._seen)
        return self._found[path]


_LATER = EvaluationFailure("only a run can tell")


def _with_known_values(
    written: dict[str, Any], known: _Values, room: ReferenceRoom
) -> tuple[dict[str, Any], bool, bool]:
    """A patch with the values that are known from the start, whether others are left, and whether
    there was no room for them."""
    left = False

    def value(reference: Reference) -> Any:
        nonlocal left
        found = known.of(reference)
        if isinstance(found, EvaluationFailure):
            left = True
            return f"$({reference.path})"
        return found

    try:
        return replace_references(written, value, room), left, False
    except ReferencesTooLargeError:
        return written, True, True


class Resolver:
    """The vcjobs that steps of a flow may come to, by the templates that are known."""

    def __init__(
        self, flow: JobFlow, changes: Sequence[ResolvedPatch], templates: Mapping[str, JobTemplate]
    ) -> None:
        self._defaults = flow.spec.job_defaults
        self._changes = {(change.step, change.case): change for change in changes}
        self._templates = templates
        self._plain: dict[str, ResolvedSpec | None] = {}
        self._sizes: dict[int, int] = {}
        """By ids of specs and patches, which live as long as this does."""

    def plain(self, name: str) -> ResolvedSpec | None:
        """That of a template without a patch; None where the template is not known."""
        if name not in self._plain:
            self._plain[name] = self._made(name)
        return self._plain[name]

    def uses(self, steps: Sequence[Step]) -> Iterator[ResolvedStep]:
        """The uses of each step in order; none of a step whose template is not known. Linear: of
        those that change something only MOST_MERGED are merged; those beyond stand as if they
        changed nothing."""
        left = MOST_MERGED
        for i, step in enumerate(steps):
            cases: Sequence[Case | None] = step.switch or (None,)
            own = self._changes.get((i, None)) if self._changes else None
            for at, case in enumerate(cases):
                kind = self.plain(step.template_for(case))
                if kind is None:
                    continue
                case_s = self._changes.get((i, at)) if case is not None else None
                both = tuple(each for each in (own, case_s) if each is not None)
                if both:
                    left -= self._size(kind.base) + sum(self._size(each.said) for each in both)
                yield ResolvedStep(i, _changed(kind, both) if both and left >= 0 else kind)

    def _size(self, spec: Mapping[str, Any]) -> int:
        """Bytes of a template's spec, or of a patch, as JSON."""
        if id(spec) not in self._sizes:
            self._sizes[id(spec)] = measure_json(spec)
        return self._sizes[id(spec)]

    def _made(self, name: str) -> ResolvedSpec | None:
        template = self._templates.get(name)
        if template is None:
            return None
        spec = template.spec
        if self._defaults is not None:
            spec = with_defaults(spec, self._defaults)
        return ResolvedSpec(template, spec, spec, predict_pod_names(spec), ())


def _changed(kind: ResolvedSpec, made: tuple[ResolvedPatch, ...]) -> ResolvedSpec:
    spec: Mapping[str, Any] = kind.base
    for change in made:
        spec = overlaid(spec, change.said)
    is_open = any(change.open for change in made)
    pods = predict_pod_names(_of_known_tasks(spec) if is_open else spec)
    return ResolvedSpec(kind.template, kind.base, spec, pods, made)


def _of_known_tasks(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    """Without tasks that have no name yet."""
    tasks = spec.get("tasks")
    if not isinstance(tasks, list):
        return spec
    kept = [
        None if isinstance(task, dict) and is_open(task.get("name")) else task for task in tasks
    ]
    return {**spec, "tasks": kept}


def is_open(value: Any) -> bool:
    """Whether a value is a text with a reference in it."""
    if not isinstance(value, str) or "$(" not in value:
        return False
    return next(find_references(value, ""), None) is not None


def unknown(spec: Mapping[str, Any]) -> Iterator[str]:
    """The JSON paths in a merged spec of what only a run can tell. An element of a list that is
    merged by a key is unknown as a whole where its key is: another may be meant."""
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
