"""Which nulls of an object count as left out. It judges nothing."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from jobflow.api.schema.crd import openapi_schema

Schema = dict[str, Any]

_METADATA: Schema = {"properties": {}}


def without_nulls(kind: str, obj: Any) -> Any:
    """A copy of a JobFlow or JobTemplate, plain JSON, without the nulls that an API server takes
    for fields that are not there (k8s.io/apiextensions-apiserver, structural schema defaulting).

    Those in lists stay, and those in free-form parts, where a patch removes by them.
    """
    return _without(obj, _schema(kind))


@lru_cache(maxsize=4)
def _schema(kind: str) -> Schema:
    schema = openapi_schema(kind)
    return schema | {"properties": schema["properties"] | {"metadata": _METADATA}}


def _without(value: Any, schema: Schema) -> Any:
    if isinstance(value, list) and "items" in schema:
        return [_without(item, schema["items"]) for item in value]
    properties = schema.get("properties")
    if not isinstance(value, dict) or properties is None:
        return value
    return {
        key: _without(each, properties.get(key, {}))
        for key, each in value.items()
        if each is not None
    }
