"""The CustomResourceDefinitions, generated from the types: shapes and descriptions, no defaults.

The webhook checks the rules instead. An API server checks the schema first and stops at a fault,
so with patterns and limits in the schema a user would learn of the other faults only later, and a
stored object that a stricter schema refuses could not be labelled any more. Pod templates and
volume claims keep unknown fields: `pod_types` has theirs.
"""

import ast
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.abc import InspectLoader
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import yaml

from jobflow.api.kinds import KINDS, Column
from jobflow.api.resources import Resource

Schema = dict[str, Any]
PRESERVED = "x-kubernetes-preserve-unknown-fields"
INT_OR_STRING = "x-kubernetes-int-or-string"


def crd(kind: str) -> dict[str, Any]:
    """Return the CustomResourceDefinition of one of JobFlow's kinds. Raises KeyError."""
    row = KINDS[kind]
    return definition(row.resource, openapi_schema(kind), [row.short_name], row.columns)


def definition(
    resource: Resource,
    schema: Schema,
    short_names: Sequence[str] = (),
    columns: Iterable[Column] = (),
    *,
    has_status: bool = True,
) -> dict[str, Any]:
    """Return the CustomResourceDefinition of a resource. `has_status`: whether its status is a
    subresource."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": resource.qualified},
        "spec": {
            "group": resource.group,
            "names": {
                "kind": resource.kind,
                "listKind": f"{resource.kind}List",
                "plural": resource.plural,
                "shortNames": [*short_names],
                "singular": resource.kind.lower(),
            },
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "versions": [
                {
                    "name": resource.version,
                    "served": True,
                    "storage": True,
                    **({"subresources": {"status": {}}} if has_status else {}),
                    "additionalPrinterColumns": [
                        {"name": name, "type": kind, "jsonPath": path}
                        | ({"priority": priority} if priority else {})
                        for name, kind, path, priority in columns
                    ],
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
        },
    }


def openapi_schema(kind: str) -> Schema:
    """Return the structural schema (apiextensions/v1) of an object of this kind."""
    row = KINDS[kind]
    return {
        "type": "object",
        "description": _doc(row.object_type),
        "properties": {
            "apiVersion": {
                "type": "string",
                "description": f"{row.resource.api_version}, the version of this schema.",
            },
            "kind": {"type": "string", "description": f"{kind}, the kind of this object."},
            "metadata": {"type": "object"},
            "spec": struct_schema(row.spec_type),
            "status": struct_schema(row.status_type),
        },
    }


def to_yaml(document: dict[str, Any]) -> str:
    # without anchors, which a reader of a schema would have to follow
    return yaml.dump(document, Dumper=_PlainDumper, sort_keys=False, allow_unicode=True, width=100)


class _PlainDumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


def _doc(described: type) -> str:
    # only the first paragraph is for users, who read it in `kubectl explain`
    return " ".join((described.__doc__ or "").split("\n\n")[0].split())


@cache
def descriptions_in(module: str) -> Mapping[str, Mapping[str, str]]:
    """Return the docstrings of fields by class and name."""
    # Python keeps only those of classes, so they are read from the source, as pydantic does
    loader = getattr(sys.modules[module].__spec__, "loader", None)
    source = loader.get_source(module) if isinstance(loader, InspectLoader) else None
    found: dict[str, dict[str, str]] = {}
    for struct in ast.parse(source or "").body:
        if isinstance(struct, ast.ClassDef):
            fields = found[struct.name] = {}
            for each in pairwise(struct.body):
                match each:
                    case ast.AnnAssign(target=ast.Name(name)), ast.Expr(ast.Constant(str(text))):
                        fields[name] = " ".join(text.split())
    return found


def description_of(struct: type, field: str) -> str | None:
    own = (descriptions_in(each.__module__).get(each.__name__, {}) for each in struct.__mro__)
    return next((fields[field] for fields in own if field in fields), None)


def struct_schema(described: type) -> Schema:
    """Return the structural schema of a type, described by its docstring."""
    info = msgspec.inspect.type_info(described)
    return {"description": _doc(described)} | _schema(info)


def _schema(info: msgspec.inspect.Type, description: str | None = None) -> Schema:
    """Return the structural schema of a type. Raises KeyError for a type without one."""
    schema: Schema
    match info:
        case msgspec.inspect.Metadata(type=inner, extra_json_schema=extra):
            return _schema(inner, description) | (extra or {})
        case msgspec.inspect.UnionType(types=types):
            inner, *others = (t for t in types if not isinstance(t, msgspec.inspect.NoneType))
            schema = {INT_OR_STRING: True} if others else _schema(inner)
        case msgspec.inspect.StructType(cls=cls, fields=fields):
            properties = {
                field.encode_name: _schema(field.type, description_of(cls, field.name))
                for field in fields
            }
            schema = {"type": "object", "properties": properties}
        case msgspec.inspect.ListType(item_type=item):
            schema = {"type": "array", "items": _described_item(item)}
        case msgspec.inspect.DictType(value_type=msgspec.inspect.AnyType()):
            schema = {"type": "object"}
        case msgspec.inspect.DictType(value_type=value):
            schema = {"type": "object", "additionalProperties": _described_item(value)}
        case _:
            schema = _SCALARS[type(info)]
    return schema | ({"description": description} if description else {})


_SCALARS: dict[type, Schema] = {
    msgspec.inspect.DateTimeType: {"type": "string", "format": "date-time"},
    msgspec.inspect.StrType: {"type": "string"},
    msgspec.inspect.IntType: {"type": "integer"},
    msgspec.inspect.FloatType: {"type": "number"},
    msgspec.inspect.BoolType: {"type": "boolean"},
    msgspec.inspect.AnyType: {PRESERVED: True, "nullable": True},
}


def _described_item(info: msgspec.inspect.Type) -> Schema:
    if isinstance(info, msgspec.inspect.StructType):
        return struct_schema(info.cls)
    return _schema(info)


def write(directory: Path) -> list[Path]:
    """Write each CRD to `<directory>/<group>_<plural>.yaml` and return the paths."""
    directory.mkdir(parents=True, exist_ok=True)
    paths = []
    for kind, row in KINDS.items():
        path = directory / f"{row.resource.group}_{row.resource.plural}.yaml"
        path.write_text(to_yaml(crd(kind)), encoding="utf-8")
        paths.append(path)
    return paths


if __name__ == "__main__":
    for written in write(Path(sys.argv[1])):
        print(written)


@cache
def pod_types() -> Mapping[str, Mapping[str, str]]:
    """Return the fields of a pod template and of a volume claim, by type: their names and types,
    `[T]` for a list, `{T}` for a map of T, or the words that a field takes."""
    # a paragraph for each type, written by tools/pod_types.py
    text = Path(__file__).with_name("pod_types.txt").read_text(encoding="utf-8")
    types = {}
    for paragraph in text.replace("\n  ", " ").splitlines():
        name, _, fields = paragraph.partition(": ")
        types[name] = dict(field.split(" ", 1) for field in fields.split(", "))
    return types
