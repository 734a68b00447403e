"""Writes the types of `jobflow.authoring` that follow from those of `jobflow.api`.

A field of the API has a field here with the same Python name and the same description, and takes
expressions too. `make manifests` runs this script; a test compares the files with its output.
"""

import subprocess
import sys
import types
import typing
from collections.abc import Iterator
from inspect import getdoc
from pathlib import Path
from textwrap import fill, indent

import msgspec

from jobflow.api.crd import description_of
from jobflow.api.flow import control, step
from jobflow.api.flow.cronjobflow import CronJobFlowSpec
from jobflow.api.flow.jobflow import JobFlowSpec
from jobflow.api.flow.step import Step
from jobflow.api.flow.traits import (
    Evaluated,
    FlowField,
    InChild,
    JobPart,
    Referring,
    Role,
    Setting,
    fields_of,
    names_with,
)  # fmt: skip
from jobflow.api.volcano import job

FLOW_TYPES = [
    each
    for module in (step, control)
    for each in vars(module).values()
    if isinstance(each, msgspec.StructMeta)
    and each.__module__ == module.__name__
    and each is not Step
]
JOB_TYPES = (
    job.JobSpec, job.Task, job.LifecyclePolicy, job.TaskDependsOn, job.Volume,
    job.NetworkTopology, job.PartitionPolicy,
)  # fmt: skip
JOB_SPEC = "Mapping[str, Any] | JobSpec"
TYPES = {
    "template": "str | Template",
    "flow": "ChildFlow | Mapping[str, Any]",
    "command": "Sequence[Any] | Expr",
    "args": "Sequence[Any] | Expr",
    "resources": "Mapping[str, Any]",
    "targets": "Sequence[str | Step]",
    "for_each": "ForEach | Sequence[Any] | Expr",
    "retry": "Retry | int",
    "params": "Mapping[str, Any] | Sequence[Param]",
}
"""Fields that take more, or less, than their type in the API."""
LATE = (Evaluated, JobPart, Referring, Setting)
"""Traits of fields whose texts and numbers may be values of the run."""
STEP_TYPES = {"depends_on": "DependsOn | Step | Sequence[Step | str]"}
CLASSES_HEAD = '''\
"""Objects in flows and jobs, written by tools/authoring_types.py (`make manifests`).

The types and descriptions of their fields are in fields.pyi, for editors and type checkers.
"""

from functools import partial

from jobflow.authoring.objects.api_objects import Fields as Fields
from jobflow.authoring.objects.api_objects import make_class

# The names of fields are written here, because the types of the API take long to import.
_object = partial(make_class, __name__)

'''
TYPES_HEAD = '''\
"""Fields of flows, steps and jobs, written by tools/authoring_types.py (`make manifests`)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self, TypedDict

from jobflow.authoring.objects.expressions import Expr
from jobflow.authoring.objects.flows import ChildFlow
from jobflow.authoring.objects.steps import Step, Template

__all__ = {names}

class Fields:
    """An object of the API. Its fields have the names of the API in snake_case; fields that are
    None are not set."""

    def __new__(cls, **fields: Any) -> Self: ...

'''


def classes() -> str:
    """Return the text of `fields.py`: what objects are when a program runs."""
    made = []
    for struct in (*FLOW_TYPES, *JOB_TYPES):
        names = fill(" ".join(each.name for each in fields_of(struct)), 90, drop_whitespace=False)
        texts = " ".join(f'"{line}"' for line in names.splitlines())
        made.append(f'{struct.__name__} = _object("{struct.__name__}", {texts})')
    made.append("\n__all__ = [each.__name__ for each in Fields.__subclasses__()]")
    return _formatted("\n".join([CLASSES_HEAD, *made]), "fields.py")


def types_of_fields() -> str:
    """Return the text of `fields.pyi`: what editors and type checkers know of them."""
    names = sorted(each.__name__ for each in (*FLOW_TYPES, *JOB_TYPES))
    parts = [TYPES_HEAD.format(names=names), *map(_dataclass, (*FLOW_TYPES, *JOB_TYPES))]
    parts.append(_typed_dict("StepFields", "Fields of a step.", Step, {"name"}, STEP_TYPES))
    spec, names = JobFlowSpec, {each.name for each in fields_of(JobFlowSpec)}
    steps, of_child = {"flows", "finally_"}, names_with(spec, InChild) - {"params"}
    doc = "Fields of a child flow."
    parts.append(_typed_dict("ChildFields", doc, spec, steps | (names - of_child)))
    doc = "Fields of a flow."
    parts.append(_typed_dict("FlowFields", doc, spec, steps | of_child, base="ChildFields"))
    doc = "Fields of the schedule of a flow."
    parts.append(_typed_dict("CronFields", doc, CronJobFlowSpec, {"schedule", "job_flow_template"}))
    return _formatted("\n".join(parts), "fields.pyi")


def _dataclass(struct: type) -> str:
    fields = "\n".join(_fields(struct, " = None"))
    head = "@dataclass(frozen=True, kw_only=True, eq=False)"
    doc = _docstring(getdoc(struct) or "")
    return f"{head}\nclass {struct.__name__}(Fields):\n{doc}\n\n{fields}\n"


def _typed_dict(
    name: str,
    doc: str,
    struct: type,
    without: set[str],
    own: dict[str, str] | None = None,
    base: str = "TypedDict",
) -> str:
    fields = "\n".join(_fields(struct, "", without, own or {}))
    return f"class {name}({base}, total=False):\n{_docstring(doc)}\n\n{fields}\n"


def _fields(
    struct: type, default: str, without: set[str] | None = None, own: dict[str, str] | None = None
) -> Iterator[str]:
    hints = typing.get_type_hints(struct, include_extras=True)
    for field in fields_of(struct):
        if field.name not in (without or ()):
            kind, doc = _type(hints[field.name]), _description(struct, field, hints[field.name])
            written = (own or {}).get(field.name) or _overridden(struct, field, kind)
            optional = written if "Any" == written else f"{written} | None"
            yield f"    {field.name}: {optional}{default}\n{_docstring(doc)}"


def _overridden(struct: type, field: FlowField, kind: str) -> str:
    if struct in JOB_TYPES:
        return "Mapping[str, Any]" if field.name == "template" else kind
    if field.get(JobPart) == JobPart(Role.SPEC):
        return JOB_SPEC
    may_be_late = any(isinstance(each, LATE) for each in field.traits)
    if may_be_late and kind in ("str", "int | str"):
        kind += " | Expr"
    elif field.get(Evaluated) is not None:
        kind = "Mapping[str, str | Expr]"
    return TYPES.get(field.name, kind)


def _description(struct: type, field: FlowField, hint: typing.Any) -> str:
    """Return the docstring of a field, or the description that its type has wherever it is used."""
    metas = [each for each in getattr(hint, "__metadata__", ()) if isinstance(each, msgspec.Meta)]
    texts = [
        each.extra_json_schema["description"]
        for each in metas
        if each.extra_json_schema and "description" in each.extra_json_schema
    ]
    return description_of(struct, field.name) or "".join(texts)


def _type(hint: typing.Any) -> str:
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return _type(args[0])
    if origin in (typing.Union, types.UnionType):
        return " | ".join(_type(each) for each in args if each is not type(None))
    if origin is list:
        return f"Sequence[{_type(args[0])}]"
    if origin is dict:
        return f"Mapping[str, {_type(args[1])}]"
    if hint is typing.Any:
        return "Any"
    return str(hint.__name__)


def _docstring(text: str) -> str:
    flat = " ".join(text.split()).replace("\\", "\\\\")
    return indent(fill(f'"""{flat}"""', 92), "    ") if flat else ""


def _formatted(source: str, name: str) -> str:
    command = [sys.executable, "-m", "ruff", "format", "--stdin-filename", name, "-"]
    done = subprocess.run(command, input=source, capture_output=True, text=True, check=True)
    return done.stdout


def main(folder: Path) -> None:
    """Write the module and its types."""
    (folder / "fields.py").write_text(classes(), encoding="utf-8")
    (folder / "fields.pyi").write_text(types_of_fields(), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
