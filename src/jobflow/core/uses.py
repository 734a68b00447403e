"""The vcjob specs that a flow's steps may have, as far as their templates are known. It refuses
nothing.

A step with `switch` may have as many as it has cases. References to params and to the flow itself
have their values here; what only a run can tell (`$(item)`, outputs) stays as it stands, and
`unknown` says where.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from jobflow.api.control import Case, Patch
from jobflow.api.jobflow import JobFlow, Step
from jobflow.api.jobtemplate import JobTemplate
from jobflow.core.build import changes_of, with_defaults
from jobflow.core.expressions import Failure
from jobflow.core.merge import JOB_SPEC, Shape, merge
from jobflow.core.pod_names import PodNames, pod_names
from jobflow.core.references import (
    Reference,
    Room,
    TooLargeError,
    references,
    replaced,
    size_of,
)
from jobflow.core.scope import Seen, with_values
from jobflow.core.violations import below

MAX_OF_ALL = 8 << 20
"""Bytes of JSON that the references of all patches of a flow may stand for: each value is copied
into the spec that is checked."""
MOST_MERGED = 16 << 20
"""Bytes of JSON of the specs that patches are merged onto: 5,000 steps of 3 KiB, about two seconds.
What is beyond is looked at without its template."""
_FROM_THE_START = frozenset({"params", "flow"})
"""Roots of references whose values are known before anything has run."""


class Change(NamedTuple):
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


class Use(NamedTuple):
    """A step whose template is known; with `switch` one of its cases."""

    step: int
    """Its position among all steps of the flow."""
    template: JobTemplate
    base: Mapping[str, Any]
    """The template's spec with the flow's jobDefaults."""
    spec: Mapping[str, Any]
    """The vcjob spec that it has now: the base with the patches merged in."""
    pods: PodNames
    changes: tuple[Change, ...]
    """The patches, in the order in which they are merged."""

    @property
    def open(self) -> bool:
        """Whether there is something in the spec that only a run can tell."""
        return any(change.open for change in self.changes)


class Patched(NamedTuple):
    """A patch, whatever it says."""

    step: int
    case: int | None
    path: str
    """Its JSON path: `spec.flows[0].switch[1].patch`."""
    patch: Patch


def patches_of(steps: Sequence[Step], path: Callable[[int], str]) -> Iterator[Patched]:
    """Each patch of these steps and of their cases, in the order of the flow. `path`: the JSON
    path of a step by its position."""
    for i, step in enumerate(steps):
        if step.patch is not None:
            yield Patched(i, None, f"{path(i)}.patch", step.patch)
        for at, case in enumerate(step.switch or ()):
            if case.patch is not None:
                yield Patched(i, at, f"{path(i)}.switch[{at}].patch", case.patch)


def changes(flow: JobFlow, patches: Sequence[Patched]) -> Iterator[Change]:
    """Those of the patches that say something."""
    known, room = _Values(flow), Room(MAX_OF_ALL)
    for step, case, path, patch in patches:
        if (written := changes_of(patch)) is not None:
            field = "jobSpec" if patch.job_spec else "spec"
            said, is_open, large = _with_known_values(written, known, room)
            yield Change(step, case, f"{path}.{field}", written, said, is_open, large)


class _Values:
    """What references stand for before anything has run, each looked up once for a flow."""

    def __init__(self, flow: JobFlow) -> None:
        self._seen = Seen(flow, lambda name: None)
        self._found: dict[str, Any] = {}

    def of(self, reference: Reference) -> Any:
        """The value; a Failure where only a run can tell it."""
        if reference.root not in _FROM_THE_START:
            return _LATER
        path = reference.path
        if path not in self._found:
            self._found[path] = with_values(f"$({path})", self._seen)
        return self._found[path]


_LATER = Failure("only a run can tell")


def _with_known_values(
    written: dict[str, Any], known: _Values, room: Room
) -> tuple[dict[str, Any], bool, bool]:
    """A patch with the values that are known from the start, whether others are left, and whether
    there was no room for them."""
    left = False

    def value(reference: Reference) -> Any:
        nonlocal left
        found = known.of(reference)
        if isinstance(found, Failure):
            left = True
            return f"$({reference.path})"
        return found

    try:
        return replaced(written, value, room), left, False
    except TooLargeError:
        return written, True, True


def uses(
    flow: JobFlow,
    steps: Sequence[Step],
    made: Sequence[Change],
    templates: Mapping[str, JobTemplate],
) -> Iterator[Use]:
    """The uses of each step in order; none of a step whose template is not known. Linear: those
    of one template that change nothing share one spec, and of the others only MOST_MERGED are
    merged; those beyond stand as if they changed nothing."""
    plain, left = _Plain(flow, templates), MOST_MERGED
    by_place = {(change.step, change.case): change for change in made}
    for i, step in enumerate(steps):
        cases: Sequence[Case | None] = step.switch or (None,)
        own = by_place.get((i, None)) if by_place else None
        for at, case in enumerate(cases):
            use = plain.of(i, step.template_for(case))
            if use is None:
                continue
            case_s = by_place.get((i, at)) if case is not None else None
            both = tuple(each for each in (own, case_s) if each is not None)
            if both:
                left -= plain.size(use) + sum(plain.size(each) for each in both)
            yield _changed(use, both) if both and left >= 0 else use


class _Plain:
    """Uses of templates without a patch."""

    def __init__(self, flow: JobFlow, templates: Mapping[str, JobTemplate]) -> None:
        self._defaults = flow.spec.job_defaults
        self._templates = templates
        self._made: dict[str, Use | None] = {}
        self._sizes: dict[int, int] = {}
        """By ids of specs and patches, which live as long as this does."""

    def of(self, step: int, name: str) -> Use | None:
        """The use of a template by a step; None where the template is not known."""
        if name not in self._made:
            self._made[name] = self._make(name)
        use = self._made[name]
        return None if use is None else Use(step, *use[1:])

    def size(self, thing: Use | Change) -> int:
        """Bytes of a template's spec, or of a patch, as JSON."""
        spec = thing.base if isinstance(thing, Use) else thing.said
        if id(spec) not in self._sizes:
            self._sizes[id(spec)] = size_of(spec)
        return self._sizes[id(spec)]

    def _make(self, name: str) -> Use | None:
        template = self._templates.get(name)
        if template is None:
            return None
        spec = template.spec
        if self._defaults is not None:
            spec = with_defaults(spec, self._defaults)
        return Use(0, template, spec, spec, pod_names(spec), ())


def _changed(use: Use, made: tuple[Change, ...]) -> Use:
    spec: Mapping[str, Any] = use.base
    for change in made:
        spec = merge(spec, change.said)
    is_open = any(change.open for change in made)
    pods = pod_names(_of_known_tasks(spec) if is_open else spec)
    return Use(use.step, use.template, use.base, spec, pods, made)


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
    return isinstance(value, str) and next(references(value, ""), None) is not None


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
                work += [(value, shape.below(key), below(at, key)) for key, value in node.items()]
        elif isinstance(node, list):
            work += [(value, shape, f"{at}[{i}]") for i, value in enumerate(node)]
        elif is_open(node):
            yield at
