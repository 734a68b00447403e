"""Traits: what a field is, written once at its type, as in
`when: Annotated[str | None, Evaluated(Stage.DECISION)] = None`.

Lists of fields are derived from them, with `fields_of` for a type and `find_set` for an object. A
field without a trait is an option and takes plain values; one of a step is refused beside an
approval, one of the spec in a child flow.
"""

import types
import typing
from collections.abc import Callable, Iterator, Mapping
from enum import Enum, StrEnum, auto
from functools import cache
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec


@typing.dataclass_transform(frozen_default=True)
class Trait(msgspec.Struct, frozen=True):
    """Base of all traits."""


T = TypeVar("T", bound=Trait)


class Plain(Trait):
    """Most objects set the field or have its default, and no rule of options is about it."""


class Apart(Trait):
    """The objects in the field are looked at for themselves: steps of a flow, the flow of a
    schedule."""


# ------------------------------------------------------------ expressions and references


class Stage(Enum):
    """When an expression is evaluated or a reference gets its value, in order. This decides which
    variables it has (`core/admission/analysis/places.py`)."""

    FLOW_START = auto()
    """Before any step starts."""
    DECISION = auto()
    """Once, when the dependencies of the step are met."""
    ITEM = auto()
    """Once for each item, at its turn."""
    VARS = auto()
    """Before each attempt starts."""
    JOB = auto()
    """When an attempt starts: its job or child flow is created, or its other work begins."""
    RETRY = auto()
    """When an attempt after a failure starts."""
    QUESTION = auto()
    """When an approval asks, or a step is decided without a job: `compute`, `fail`."""
    RUN_END = auto()
    """After each run."""
    ITEM_END = auto()
    """Whenever an item of the step has completed."""
    ATTEMPT_END = auto()
    """After each failed attempt."""
    FLOW_END = auto()
    """After `finally`."""


class ValueKind(Enum):
    CONDITION = auto()
    ITEMS = auto()
    TIMEOUT = auto()
    """A duration as text, or a number of seconds."""
    ANY = auto()


class Evaluated(Trait):
    """The field is a CEL expression, or a map of them."""

    stage: Stage
    result: ValueKind = ValueKind.CONDITION


class Referring(Trait):
    """Strings in the field may contain references such as `$(params.x)`."""

    stage: Stage
    below: str = ""
    """The only key of its value in which they may be; "": everywhere."""


class Setting(Trait):
    """The field may be one reference to a param, whose value takes its place."""

    is_time: bool = False
    """Whether the value is a duration; else it is a whole number."""
    is_share: bool = False
    """Whether the value may also be a percentage such as `5%`."""
    of_vars: bool = False
    """Whether it may also be one reference to `vars` of its step, whose value each attempt has for
    itself."""


# -------------------------------------------------------------------- work and its jobs


class WorkKind(StrEnum):
    """A kind of work. `core/work.py` has the facts of each, `core/planning/work` its decisions."""

    JOB = "job"
    FLOW = "flow"
    APPROVAL = "approval"
    COMPUTE = "compute"
    FAIL = "fail"


class Runs(Trait):
    """The field says what a step or a case runs."""

    kind: WorkKind | None = None
    """None: one of its cases."""


class For(Trait):
    """The kinds of work beside which the field has a meaning. Default for a field of a step: jobs
    and child flows; for one below it: as the field that it is in."""

    kinds: tuple[WorkKind, ...]
    instead: Mapping[WorkKind, str] = {}
    """Advice for a step of another kind, as a clause; without it: to write the field into another
    step."""


EVERY_KIND = For(tuple(WorkKind))
OF_JOBS = For((WorkKind.JOB,))
_OF_JOBS_AND_FLOWS = For((WorkKind.JOB, WorkKind.FLOW))


class Role(Enum):
    """The part of a job that a field is."""

    SPEC = auto()
    """A spec, or a patch of one."""
    CONTAINER = auto()
    """The only container."""
    VOLUMES = auto()
    """The volumes of the pod of that container."""
    ENV = auto()
    """Variables of every container."""
    ARGUMENT = auto()
    """The field of this name of the first container of the first task."""


class JobPart(Trait):
    """The field is a part of the vcjob that a step creates. Strings in it may contain references,
    which get their values at Stage.JOB."""

    role: Role


# ------------------------------------------------------------------------- child flows


class InChild(Trait):
    """The field of a flow is also one of a child flow."""

    inherited: bool = False
    """Whether a child flow without it has that of its parent."""


# -------------------------------------------------------------- rows of the admission rules


class Required(Trait):
    """The field is set wherever its object is. For objects in a step or a spec only: of steps and
    specs themselves, rules pass by those without options."""

    detail: str
    """The values that may be written, as a clause."""


class Relation(Trait):
    """Base of traits of a set field that are about other fields of its object."""


class NotWith(Relation):
    """The field excludes others of its object."""

    others: Mapping[str, str]
    """Each of the others by its JSON name, with the fault as a clause. `{}` in it is that name."""


class Needs(Relation):
    """The field has a meaning only beside another one of its object."""

    other: str
    """JSON name."""
    detail: str
    """The fault without it, as a clause."""


class OneOf(Relation):
    """At most one of the fields of the object with this trait is set."""

    names: str
    """The fields, as a message lists them."""


# -------------------------------------------------------------------------- derived lists


class FlowField(NamedTuple):
    """A field of a type of the API."""

    name: str
    json: str
    """Its name in JSON."""
    traits: tuple[Trait, ...]
    struct: type[msgspec.Struct] | None
    """The type of its object, or of the objects in its list; None for other values."""
    is_list: bool

    def get(self, kind: type[T]) -> T | None:
        return next((each for each in self.traits if isinstance(each, kind)), None)

    @property
    def is_of_job(self) -> bool:
        """Whether it is a part of the job, or an object of such parts, as a patch is."""
        if self.struct is not None:
            return all(each.is_of_job for each in fields_of(self.struct))
        return self.get(JobPart) is not None


class Found(NamedTuple, Generic[T]):
    """A field with a trait in an object."""

    path: str
    """Its JSON path below the object: `forEach.count`, `switch[0].when`."""
    trait: T
    value: Any
    owner: Any
    """The object that has the field."""
    json: str


@cache
def fields_of(struct: type[msgspec.Struct]) -> tuple[FlowField, ...]:
    hints = typing.get_type_hints(struct, include_extras=True)
    names = zip(struct.__struct_fields__, struct.__struct_encode_fields__, strict=True)
    fields = []
    for name, json in names:
        traits: list[Trait] = []
        inner: type[msgspec.Struct] | None = None
        is_list = False
        pending = [hints[name]]
        while pending:
            each = pending.pop()
            origin, args = typing.get_origin(each), typing.get_args(each)
            # also inside of a union, as in `IntOrParam | None`
            if origin is typing.Annotated:
                traits += [trait for trait in args[1:] if isinstance(trait, Trait)]
                pending.append(args[0])
            elif origin in (typing.Union, types.UnionType):
                pending += args
            elif origin is list:
                is_list = True
                pending += args
            elif isinstance(each, type) and issubclass(each, msgspec.Struct):
                inner = each
        fields.append(FlowField(name, json, tuple(traits), inner, is_list and inner is not None))
    return tuple(fields)


def names_with(struct: type[msgspec.Struct], kind: type[Trait]) -> frozenset[str]:
    """Return the Python names of the fields of a type with a trait."""
    return frozenset(field.name for field in fields_of(struct) if field.get(kind) is not None)


def fields_without(struct: type[msgspec.Struct], kind: WorkKind) -> Iterator[tuple[FlowField, For]]:
    """Yield the fields of a step that have no meaning beside a kind of work."""
    for field in fields_of(struct):
        trait = field.get(For) or _OF_JOBS_AND_FLOWS
        if kind not in trait.kinds:
            yield field, trait


def find_without(owner: msgspec.Struct, kind: WorkKind, path: str = "") -> Iterator[Found[For]]:
    """Yield the fields of a step and of the objects in it that have no meaning beside a kind of
    work and are set, and neither empty nor false."""
    for found in find_set(owner, For, path):
        if kind not in found.trait.kinds and found.value:
            yield found


def walk(struct: type[msgspec.Struct], path: str = "") -> Iterator[tuple[str, FlowField]]:
    """Yield all fields of a type and below it, with their paths: `flows[].switch[].when`."""
    for field in fields_of(struct):
        own = f"{path}{field.json}"
        yield own, field
        if field.struct is not None:
            yield from walk(field.struct, f"{own}[]." if field.is_list else f"{own}.")


def find_set(owner: msgspec.Struct, kind: type[T], path: str = "") -> Iterator[Found[T]]:
    """Yield the fields with a trait that are set in an object at `path`, which is empty or ends
    with a dot, and in the objects in it, except those in fields that are Apart."""
    return _finder(type(owner), kind, _IS_SET)(owner, path)


def find_unset(owner: msgspec.Struct, kind: type[T], path: str = "") -> Iterator[Found[T]]:
    """Yield the fields with a trait that are not set, or an empty text, as in `find_set`."""
    return _finder(type(owner), kind, _IS_UNSET)(owner, path)


_IS_SET = "value is not None"
_IS_UNSET = 'value is None or value == ""'
_Finder = Callable[[Any, str], Iterator[Found[T]]]


@cache
def _finder(struct: type[msgspec.Struct], kind: type[T], test: str) -> _Finder[T]:
    # compiled, because rules and plans look at every step with options: a loop takes twice as long
    names: dict[str, Any] = {"Found": Found}
    lines = ["def find(owner, path):"]
    for field in fields_of(struct):
        value, json = f"    value = owner.{field.name}", field.json
        traits = [each for each in field.traits if isinstance(each, kind)]
        if traits:
            lines += [value, f"    if {test}:"]
        for i, trait in enumerate(traits):
            name = f"trait_{field.name}_{i}"
            names[name] = trait
            lines.append(f"        yield Found(path + {json!r}, {name}, value, owner, {json!r})")
        if _has_below(field, kind):
            assert field.struct is not None
            below = f"find_{field.name}"
            names[below] = _finder(field.struct, kind, test)
            lines += [value, "    if value is not None:"]
            if field.is_list:
                lines.append("        for i, each in enumerate(value):")
                lines.append(f"            yield from {below}(each, f'{{path}}{json}[{{i}}].')")
            else:
                lines.append(f"        yield from {below}(value, path + {json + '.'!r})")
    exec("\n".join(lines if lines[1:] else ["def find(owner, path): return iter(())"]), names)
    return names["find"]  # type: ignore[no-any-return]


def _has_below(field: FlowField, kind: type[Trait]) -> bool:
    if field.struct is None or field.get(Apart) is not None:
        return False
    fields = fields_of(field.struct)
    return any(each.get(kind) is not None or _has_below(each, kind) for each in fields)
