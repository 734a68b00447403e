"""Generator of hostile reviews from the schema and from values that rules treat specially.

Most reviews are small and have many faults; some have very much of one thing. Equal seeds give
equal reviews.
"""

import random
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import msgspec

from jobflow.api.crd import openapi_schema
from support.admission.admissions import UID

MOST_BYTES = 3 << 20
"""Maximum size of an object that an API server takes."""

Json = Any
Field = Callable[["Maker"], Json]

WORDS = (
    "a b s0 s1 s2 s3 main worker big bad x l default closed svc env mpi ssh all any All Completed "
    "Failed Running Succeeded Abort Stop Continue retain delete AbortJob RestartJob PodFailed * "
    "TaskCompleted Host TE /healthz 1s -1s 1h30m 0 A a_b . .. - $(params.x) $(params.l.0) $(item) "
    "$(item.k) $(index) $(steps.s0.outputs.y) $(flow.name) $( $$( $() {{params.x}} ${x} null true"
).split() + ["", " ", "a b", "“a”", "é😀", "\u0000", "a\nb", "x" * 64, "y" * 300, "z" * 3000]
PIECES = (
    "params.x params.l params parms.y item item.k index flow.name flow.phase 1 2.5 -1 true false "
    'null "a" [1,2] {"a":1} steps["s0"].phase steps.s1.outputs.y steps["s0"].tasks.main.Failed '
    'steps["nowhere"].phase size(params.l) reason exitCode a.b.c.d.e has(params.x) string(1)'
).split()
JOINTS = " && , || , == , < , + , - , in , ? 1 : , * , / , .  ,( , ) , && ! ".split(",")
NUMBERS = [0, 1, 2, -1, 5, 100, 1000, 1001, 65_535, 65_536, 2**31 - 1, 2**31, 2**63 - 1, 2**64, 0.5]
EXPRESSIONS = frozenset({"when", "until", "from"})
NAMES = frozenset({"name", "template", "targets", "taskName"})


class Maker:
    """Generates JSON from a seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._choice = self._random.choice
        self._odds = self._random.random

    def review(self) -> tuple[str, bytes]:
        """Return a path and a body."""
        if self._odds() < 1 / 400:
            kind, spec = self._much()
        else:
            kind = "JobTemplate" if self._odds() < 0.25 else "JobFlow"
            spec = self._object(_spec(kind))
        body = self._body(kind, spec)
        if self._odds() < 0.03:
            body = self._broken(body)
        return f"/{kind.lower()}s/validate", body

    def _body(self, kind: str, spec: Json) -> bytes:
        new = {"metadata": self._metadata(), "spec": spec}
        old = None
        operation = self._choice(["CREATE"] * 5 + ["UPDATE", "UPDATE", "DELETE"])
        if operation != "CREATE":
            old = {**new, "status": {"state": {"phase": self._word()}}}
            if operation == "UPDATE" and self._odds() < 0.5:
                old["spec"] = self._object(_spec(kind))
        request = {
            "uid": UID,
            "kind": {"group": "flow.volcano.sh", "version": "v1alpha1", "kind": kind},
            "operation": operation,
            "name": "f",
            "namespace": "default",
            "userInfo": {"username": "anna", "groups": ["dev"]},
            "object": new if operation != "DELETE" else None,
            "oldObject": old,
        }
        review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
        return msgspec.json.encode(review | {"request": request})

    def _metadata(self) -> Json:
        metadata: dict[str, Json] = {"name": "f", "namespace": "default"}
        if self._odds() < 0.1:
            metadata[self._choice(["labels", "annotations"])] = {self._word(): self._any()}
        if self._odds() < 0.05:
            metadata[self._choice(["deletionTimestamp", "name", "finalizers"])] = self._any()
        return metadata

    def _broken(self, body: bytes) -> bytes:
        at = self._random.randrange(len(body))
        pieces = [b"", b"\x00", b"\xff", b'"', b"{", b"[" * 3000, b",1e999", b"\\ud800"]
        piece = self._choice(pieces)
        return body[:at] + piece + body[at + self._random.randrange(3) :]

    def _object(self, schema: Json, name: str = "spec", depth: int = 0) -> Json:
        """Return a value for a part of the schema; now and then any other value."""
        if self._odds() < 0.03 or depth > 12:
            return self._any(depth)
        kind = schema.get("type")
        if kind == "array":
            count = self._choice([0, 1, 1, 2, 3, 5])
            return [self._object(schema["items"], name, depth + 1) for _ in range(count)]
        if kind == "object":
            return self._map(schema, name, depth)
        if kind == "string":
            return self._text(name, schema)
        if kind in ("integer", "number"):
            return self._choice(NUMBERS)
        return self._choice([True, False]) if kind == "boolean" else self._any(depth)

    def _map(self, schema: Json, name: str, depth: int) -> Json:
        if name in ("jobSpec", "patch.spec"):
            return self._object(_spec("JobTemplate"), "spec", depth + 1)
        if name == "template" and "properties" not in schema:
            return self._pod()
        if "properties" not in schema:
            return {self._word(): self._any(depth + 1) for _ in range(self._choice([0, 1, 2]))}
        likely = 0.8 if depth < 2 else 0.35
        fields = {
            key: self._object(part, f"patch.{key}" if name == "patch" else key, depth + 1)
            for key, part in schema["properties"].items()
            if self._odds() < (0.95 if key in ("name", "flows", "tasks") else likely / 2)
        }
        if self._odds() < 0.03:
            fields[self._choice(["$patch", "$retainKeys", self._word()])] = self._any()
        return fields

    def _pod(self) -> Json:
        container: Json = {"name": self._word(), "image": "i", "command": [self._word()]}
        if self._odds() < 0.4:
            container["resources"] = {"requests": {"cpu": self._choice(["1", "1e400", -1, "x"])}}
        return {"metadata": {"labels": {"a": self._word()}}, "spec": {"containers": [container]}}

    def _text(self, name: str, schema: Json) -> str:
        if name in EXPRESSIONS:
            return self._expression(self._choice([1, 1, 2, 3, 9]))
        if "enum" in schema and self._odds() < 0.8:
            return str(self._choice(schema["enum"]))
        if name in NAMES and self._odds() < 0.7:
            return self._choice(["s0", "s1", "s2", "s3", "a", "b", "big", "main", "worker"])
        return self._word()

    def _expression(self, pieces: int) -> str:
        text = self._choice(PIECES)
        for _ in range(pieces - 1):
            text += self._choice(JOINTS) + self._choice(PIECES)
        if self._odds() < 0.1:
            return f"params.l.{self._choice(['all', 'map', 'filter', 'x'])}(i, i == {text})"
        return text

    def _word(self) -> str:
        return self._choice(WORDS)

    def _any(self, depth: int = 0) -> Json:
        odds = self._odds()
        if depth > 12 or odds < 0.4:
            return self._word()
        if odds < 0.7:
            return self._choice([*NUMBERS, True, False, None])
        if odds < 0.85:
            return [self._any(depth + 3) for _ in range(self._choice([0, 1, 3]))]
        return {self._word(): self._any(depth + 3) for _ in range(self._choice([0, 1, 3]))}

    def _much(self) -> tuple[str, Json]:
        """Return a spec with much of one thing, up to MOST_BYTES."""
        kind, build = self._choice(MUCH)
        count = int(10 ** self._random.uniform(1, 5))
        spec = build(self, count)
        while len(msgspec.json.encode(spec)) > MOST_BYTES:
            count //= 2
            spec = build(self, count)
        return kind, spec

    def several(self, count: int, most: int) -> int:
        """Return a random number of parts to divide `count` things into."""
        return max(1, min(most, int(count ** self._odds())))


@lru_cache(maxsize=2)
def _spec(kind: str) -> Json:
    return openapi_schema(kind)["properties"]["spec"]


def _steps(count: int, **more: Json) -> list[Json]:
    return [{"name": f"s{i}", "template": "a", **more} for i in range(count)]


def _each(count: int, step: Callable[[int], Json]) -> list[Json]:
    return [{"name": f"s{i}", "template": "a", **step(i)} for i in range(count)]


def _flow(steps: Callable[[Maker, int], list[Json]], **more: Json) -> Callable[[Maker, int], Json]:
    return lambda maker, count: {"flows": steps(maker, count), **more}


def _patched(patch: Callable[[Maker, int], Json]) -> Callable[[Maker, int], Json]:
    """Divide the count among the patches of several steps."""

    def of(maker: Maker, count: int) -> Json:
        steps = maker.several(count, 200)
        job_spec = patch(maker, max(1, count // steps))
        return {"flows": _steps(steps, patch={"jobSpec": job_spec})}

    return of


def _targets(back: Callable[[int, int], list[int]]) -> Callable[[Maker, int], list[Json]]:
    return lambda maker, count: _each(
        count, lambda i: {"dependsOn": {"targets": [f"s{j}" for j in back(i, count)]}}
    )


def _probes(task: str) -> Callable[[Maker, int], list[Json]]:
    def of(maker: Maker, count: int) -> list[Json]:
        entries = maker.several(count, 32)
        probe = {
            "tcpSocketList": [{"taskName": task, "port": k} for k in range(entries)],
            "httpGetList": [{"taskName": task, "port": 1, "path": f"/{k}"} for k in range(entries)],
            "taskStatusList": [{"taskName": f"{task}{k}", "phase": "Runing"} for k in range(3)],
        }
        steps = _steps(count // entries, dependsOn={"targets": ["s0"], "probe": probe})
        return [{"name": "s0", "template": "big"}, *steps[1:]]

    return of


def _cases(maker: Maker, count: int) -> list[Json]:
    cases = maker.several(count, 110)
    switch = [
        {"when": f"params.x == {i}", "template": "a", "patch": {"jobSpec": {"maxRetry": i - 2}}}
        for i in range(cases)
    ]
    return [{"name": f"s{i}", "switch": switch} for i in range(count // cases)]


def _conditions(text: Callable[[int], str]) -> Callable[[Maker, int], list[Json]]:
    return lambda maker, count: _each(
        min(count, 5_000), lambda i: {"when": text(i), "dependsOn": {"targets": ["s0"]}}
    )


def _nested(depth: int) -> Json:
    value: Json = 1
    for i in range(min(depth, 900)):
        value = [value] if i % 2 else {"a": value}
    return value


def _tasks(task: Callable[[int], Json]) -> Callable[[Maker, int], Json]:
    return lambda maker, count: {"tasks": [task(i) for i in range(count)]}


TASKS: dict[str, Callable[[int], Json]] = {
    "empty": lambda i: {},
    "numbers": lambda i: i,
    "wrong": lambda i: {"name": f"T_{i}", "replicas": -1, "dependsOn": {"name": ["z"]}},
    "alike": lambda i: {"name": "main", "replicas": 1, "maxRetry": -1},
    "waiting": lambda i: {"name": f"t{i}", "dependsOn": {"name": [f"t{i + 1}", f"t{i * 7 % 99}"]}},
    "policies": lambda i: {"name": f"t{i}", "policies": [{"event": "x"}, {}, {"exitCode": 0}]},
    "open": lambda i: {"name": f"$(item.k{i})", "replicas": "$(params.x)"},
    "partitions": lambda i: {"name": f"t{i}", "partitionPolicy": {"partitionSize": -1}},
}

PARAMS = [{"name": "x", "value": 1}, {"name": "l", "value": [1, 2, 3]}]

MUCH_OF_TEMPLATES: list[Callable[[Maker, int], Json]] = [
    *(_tasks(task) for task in TASKS.values()),
    lambda maker, n: {"tasks": [{"policies": [{}] * n}]},
    lambda maker, n: {"volumes": [{}, 1, {"mountPath": ":"}] * n},
    lambda maker, n: {"plugins": {f"svc{i}": [] for i in range(n)}},
]
MUCH_OF_FLOWS: list[Callable[[Maker, int], Json]] = [
    *(_patched(_tasks(task)) for task in TASKS.values()),
    _patched(lambda maker, n: {"plugins": {f"p{i}": 1 for i in range(n)}}),
    _patched(lambda maker, n: {"tasks": [{"template": _nested(n)}]}),
    _patched(lambda maker, n: {f"taks{i}": i for i in range(n)}),
    _patched(lambda maker, n: {"queue": "$(params.x)$(parms.y){{x}}$(item)" * n}),
    _patched(lambda maker, n: {"queue": "$(" * n, "schedulerName": "{{" * n}),
    _flow(lambda maker, n: _steps(n, template="big", patch={"jobSpec": {"x": 1}})),
    _flow(lambda maker, n: _steps(n), jobDefaults={"queue": "Q", "plugins": {"x": []}}),
    _flow(lambda maker, n: [{"name": "a"}] * n),
    _flow(lambda maker, n: [1, {"name": 1, "dependsOn": 3}] * n),
    _flow(lambda maker, n: [{"name": "é" * 250 + str(i)} for i in range(n)]),
    _flow(_targets(lambda i, n: [(i + 1) % n])),
    _flow(_targets(lambda i, n: [i ^ 1])),
    _flow(_targets(lambda i, n: [*range(max(0, i - 40), i)])),
    _flow(_targets(lambda i, n: [n + i, n + i + 1])),
    _flow(
        lambda maker, n: _each(
            n,
            lambda i: {"name": "ab" * 90 + f"{i}x", "dependsOn": {"targets": ["ba" * 90 + f"{i}"]}},
        )
    ),
    _flow(_cases, params=PARAMS),
    _flow(_conditions(lambda i: f"params.x > {i}"), params=PARAMS),
    _flow(_conditions(lambda i: f"parms.x{i} > steps.s{i}.ouputs"), params=PARAMS),
    _flow(_conditions(lambda i: "(" * 15 + str(i)), params=PARAMS),
    _flow(_conditions(lambda i: f"steps.s0.tasks.t{i}x.Failed > 0"), params=PARAMS),
    _flow(_conditions(lambda i: " || ".join([f"params.x=={i}"] * 60)), params=PARAMS),
    _flow(_conditions(lambda i: f"params.l.all(i, i=={i})"), params=PARAMS),
    _flow(_probes("main")),
    _flow(_probes("nowhere")),
    lambda maker, n: {
        "flows": _steps(1),
        "params": [{"name": f"p{i}", "value": i, "enum": [1] * 9} for i in range(n)],
    },
    lambda maker, n: {
        "flows": _steps(9, patch={"jobSpec": {"tasks": ["$(params.x)"] * 50}}),
        "params": [{"name": "x", "value": [{}] * n}],
    },
    _flow(
        lambda maker, n: _steps(
            n // 50,
            forEach={"items": [{"k": 1}] * 50},
            retry={"limit": 99},
            patch={"jobSpec": {"queue": "$(item.j)"}},
        )
    ),
    _flow(
        lambda maker, n: _steps(
            n, repeat={"max": 1001}, timeout="x", retry={"limit": -1, "when": "reason"}, daemon=True
        )
    ),
    lambda maker, n: {"flows": _steps(1), "finally": _steps(n, dependsOn={"targets": ["s0"]})},
    lambda maker, n: {
        "flows": _steps(1),
        "jobDefaults": {"labels": {f"_{i}": "!" for i in range(n)}},
    },
    lambda maker, n: {"flows": _steps(1), **{f"x{i}": 1 for i in range(n)}},
]
MUCH = [
    *(("JobTemplate", build) for build in MUCH_OF_TEMPLATES),
    *(("JobFlow", build) for build in MUCH_OF_FLOWS),
]
"""A kind, and a function that returns a spec with `count` of one thing."""
