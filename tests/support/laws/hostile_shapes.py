"""Hostile shapes of flows: much of one thing, for every field of the schema.

A shape is a function from a number to a spec. A field is long, wide or deep in one step, in many
steps, or both; in child flows; in items; on a large template. A new field of the schema has shapes
by itself.
"""

import random
from collections.abc import Callable, Iterator
from functools import cache
from math import isqrt
from typing import Any

from jobflow.api.crd import openapi_schema

Json = Any
Shape = Callable[[int], Json]
Value = Callable[[int], Json]

PARAMS = [
    {"name": "x", "value": 1},
    {"name": "l", "value": [1, 2, 3]},
    {"name": "t", "value": "y" * 5_000},
]
_POD = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i$(params.x)"}]}}
_BESIDE: dict[str, Json] = {
    "approval": {"message": "go"},
    "repeat": {"until": "true", "max": 2},
    "retry": {"limit": 1},
    "backoff": {"duration": "1s"},
    "params": {"name": "p", "value": 1},
    "switch": {"template": "a"},
}
"""What else an object needs to be valid, by its field."""
_WORKS = frozenset({"flow", "jobSpec", "container", "approval"})
"""Fields in place of a template."""
_EXPRESSIONS = frozenset({"when", "until", "from", "vars", "outputs"})


def _long(count: int) -> str:
    return "x" * count


def _inserted(count: int) -> str:
    return "$(params.t)" * count


def _expression(count: int) -> str:
    return "1" + "+1" * count + " > params.x"


def _work(count: int) -> str:
    return f"range({min(count, 440)}).all(x, range({min(count, 440)}).all(y, y >= 0))"


def _deep(count: int) -> Json:
    value: Json = 1
    for i in range(min(count, 200)):
        value = [value] if i % 2 else {"a": value}
    return value


def _job(count: int) -> Json:
    return {"tasks": [{"name": f"t{i}", "replicas": 1, "template": _POD} for i in range(count)]}


def _nested(levels: int, of: Json) -> Json:
    for _ in range(levels):
        of = {"flows": [{"name": "c", "flow": of, "retry": {"limit": 1}}]}
    return of


def _flow(count: int) -> Json:
    return {"flows": [{"name": f"x{i}", "template": "a"} for i in range(count)]}


_FREE: dict[str, dict[str, Value]] = {
    "flow": {
        "many": _flow,
        "deep": lambda n: _nested(min(n, 3), _flow(1)),
        "params": lambda n: _flow(1) | {"params": {f"p{i}": "$(params.t)" for i in range(n)}},
        "work": lambda n: {"flows": [{"name": "x", "template": "a", "when": _work(440)}] * 1},
    },
    "jobSpec": {"tasks": _job, "texts": lambda n: {"queue": _inserted(n)}},
    "container": {"args": lambda n: {"image": "i", "args": ["$(item)"] * n}},
    "env": {"wide": lambda n: {f"E{i}": "$(params.t)$(item)" for i in range(n)}},
    "volumeClaims": {
        "wide": lambda n: {f"v{i}": {"accessModes": ["ReadWriteOnce"]} for i in range(n)}
    },
}
_FREE["spec"] = _FREE["jobSpec"]
_ANY: dict[str, Value] = {
    "many": lambda n: list(range(n)),
    "wide": lambda n: {f"k{i}": "$(params.x)" for i in range(n)},
    "deep": _deep,
    "long": _long,
}


def _values(name: str, schema: Json) -> dict[str, Value]:
    """Return functions that make much of a field."""
    kind = schema.get("type")
    if kind == "string":
        if name in _EXPRESSIONS:
            return {"long": _expression, "work": _work}
        return {"long": _long, "inserted": _inserted}
    if kind == "array":
        element = _least(name, schema["items"])
        return {"many": lambda n: [element] * n}
    if "additionalProperties" in schema:
        element = (
            "params.x > 1" if name in _EXPRESSIONS else _least("", schema["additionalProperties"])
        )
        return {"wide": lambda n: {f"k{i}": element for i in range(n)}}
    if "properties" not in schema and kind in ("object", None):
        return _FREE.get(name, {}) | ({} if name in ("flow", "jobSpec", "spec") else _ANY)
    return {}


def _least(name: str, schema: Json) -> Json:
    """Return a small value of a part of the schema."""
    match schema.get("type"):
        case "string":
            return "s0"
        case "array":
            return [_least(name, schema["items"])]
        case "object":
            return _BESIDE.get(name, {})
    return 1


def _fields(schema: Json, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Json]]:
    """Yield each field below a schema of an object, with its path; lists have `[]`."""
    for name, part in schema.get("properties", {}).items():
        yield (*path, name), part
        items = part.get("items", {}) if part.get("type") == "array" else None
        if items is None:
            yield from _fields(part, (*path, name))
        else:
            yield from _fields(items, (*path, name, "[]"))


def _placed(path: tuple[str, ...], value: Json) -> Json:
    """Return an object with a value at a path."""
    for at in range(len(path) - 1, -1, -1):
        if path[at] == "[]":
            value = [value]
        else:
            above = path[at - 2 if at and path[at - 1] == "[]" else at - 1] if at else ""
            value = _BESIDE.get(above, {}) | {path[at]: value}
    return value


def _steps(step: Callable[[int], Json], count: int, template: str = "a") -> list[Json]:
    made = [{"name": f"s{i}"} | step(i) for i in range(count)]
    return [each if _WORKS & each.keys() else {"template": template} | each for each in made]


def _of_step(path: tuple[str, ...], value: Value) -> dict[str, Shape]:
    def step(count: int) -> Json:
        return _placed(path, value(count))

    def spec(steps: list[Json]) -> Json:
        return {"params": PARAMS, "flows": steps}

    return {
        "one": lambda n: spec(_steps(lambda i: step(n), 1)),
        "many": lambda n: spec(_steps(lambda i: step(2), n)),
        "both": lambda n: spec(_steps(lambda i: step(isqrt(n)), isqrt(n))),
        "items": lambda n: spec(_steps(lambda i: {"forEach": {"count": 1_000}} | step(n), 1)),
        "large": lambda n: spec(_steps(lambda i: step(2), isqrt(n), template="big")),
        "inner": lambda n: spec(
            _steps(lambda i: {"flow": {"flows": _steps(lambda j: step(2), 1)}}, n)
        ),
        "deep": lambda n: spec(
            _steps(lambda i: {"flow": _nested(2, {"flows": _steps(lambda j: step(2), 1)})}, n)
        ),
        "finally": lambda n: (
            spec(_steps(lambda i: {}, 1))
            | {"finally": _steps(lambda i: {"name": f"z{i}"} | step(2), n)}
        ),
    }


@cache
def shapes() -> dict[str, Shape]:
    """The shapes, by their names."""
    schema = openapi_schema("JobFlow")["properties"]["spec"]
    found: dict[str, Shape] = {}
    for path, part in _fields(schema["properties"]["flows"]["items"]):
        for kind, value in _values(path[-1], part).items():
            for where, shape in _of_step(path, value).items():
                found[f"{'.'.join(path)} {kind} {where}"] = shape
    for path, part in _fields(schema):
        if path[0] not in ("flows", "finally"):
            for kind, value in _values(path[-1], part).items():
                found[f"spec.{'.'.join(path)} {kind}"] = _of_spec(path, value)
    return found | _OF_TREES


def _of_spec(path: tuple[str, ...], value: Value) -> Shape:
    return lambda n: {"params": PARAMS, "flows": _steps(lambda i: {}, 2)} | _placed(path, value(n))


def _retried(levels: int) -> Shape:
    """Chains of child flows that are retried, down to a large template."""
    leaf = {"flows": [{"name": "x", "template": "big", "retry": {"limit": 1}}]}
    return lambda n: {"flows": _steps(lambda i: {"flow": _nested(levels, leaf)}, n)}


def _alike(count: int) -> Json:
    """Names that repeat each other's words, in two levels."""
    names = ["-".join(["a"] * i) for i in range(1, 12)]
    inner = {"flows": [{"name": name, "template": "a"} for name in names]}
    steps = [{"name": name, "flow": inner, "retry": {"limit": 2}} for name in names]
    return {"flows": steps[: max(count, 1)]}


_OF_TREES: dict[str, Shape] = {
    "names of retried child flows": _retried(2),
    "names of child flows alike": _alike,
    "a large template in child flows": lambda n: {
        "flows": _steps(lambda i: {"flow": {"flows": [{"name": "x", "template": "big"}]}}, n)
    },
    "work in child flows": lambda n: {
        "flows": _steps(
            lambda i: {"flow": {"flows": [{"name": "x", "template": "a", "when": _work(440)}]}}, n
        )
    },
    "cases with child flows": lambda n: {
        "flows": _steps(
            lambda i: {"switch": [{"when": "true", "flow": _flow(1)}] * 100}, max(n // 100, 1)
        )
    },
}


def mixed(seed: int) -> Json:
    """Return a spec with steps of several shapes, each of its own size."""
    source = random.Random(seed)
    steps: list[Json] = []
    rest: Json = {}
    for name in source.sample(sorted(shapes()), source.choice([1, 2, 3, 5])):
        spec = shapes()[name](int(10 ** source.uniform(0, 2.5)))
        steps += spec["flows"]
        rest |= {key: value for key, value in spec.items() if key != "flows"}
    named = [{**each, "name": f"m{i}"} for i, each in enumerate(steps)]
    for i, each in enumerate(named):
        if i and source.random() < 0.3 and isinstance(each.get("dependsOn", {}), dict):
            each["dependsOn"] = {"targets": [f"m{source.randrange(i)}"]} | each.get("dependsOn", {})
    return rest | {"flows": named}
