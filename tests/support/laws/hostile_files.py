"""Files that ask a command for as much work as their size allows: deep, wide, many, in one line, of
things that contain each other. Each shape is a function of a size in characters."""

import json
from collections.abc import Callable, Sequence
from typing import Any

JOB = {"image": "i", "command": ["true"]}


def hostile_files() -> dict[str, Callable[[int], str]]:
    """Return the shapes by their names; each makes a text of about that many characters."""
    return {
        "brackets": lambda size: "[" * size,
        "keys": lambda size: _flow_text(
            "{" + ", ".join(f"k{i}: 1" for i in range(size // 10)) + "}"
        ),
        "same key": lambda size: _flow_text("{" + "a: 1, " * (size // 6) + "}"),
        "documents": lambda size: "---\na: 1\n" * (size // 9),
        "empty documents": lambda size: "---\n" * (size // 4),
        "flows": lambda size: "---\n".join(_flow([_step("a")]) for _ in range(size // 120)),
        "comments": lambda size: "#\n" * (size // 2),
        "anchors": _anchors,
        "merges": _merges,
        "aliases": lambda size: "a: &a [" + "1, " * 200 + "]\nb: [" + "*a, " * (size // 4) + "]",
        "one scalar": lambda size: "x" * size,
        "quotes": lambda size: '"' * size,
        "colons": lambda size: ": " * (size // 2),
        "indentation": lambda size: "".join(
            f"{' ' * i}k:\n" for i in range(int((2 * size) ** 0.5))
        ),
        "questions": lambda size: "? " * (size // 2),
        "numbers": lambda size: "[" + "1e5, " * (size // 5) + "]",
        "digits": lambda size: "a: " + "9" * size,
        "tabs": lambda size: "\t" * size,
        "carriage returns": lambda size: "a: 1\r" * (size // 5),
        "steps": lambda size: _flow([_step(f"s{i}") for i in range(size // 60)]),
        "unknown fields": lambda size: _flow(
            [{"name": f"s{i}", "imagee": 1} for i in range(size // 30)]
        ),
        "same names": lambda size: _flow([_step("a") for _ in range(size // 60)]),
        "chain": lambda size: _flow(
            [
                _step(f"s{i}", dependsOn={"targets": [f"s{i - 1}"]} if i else {})
                for i in range(size // 100)
            ]
        ),
        "all before": lambda size: _flow(
            [
                _step(f"s{i}", dependsOn={"targets": [f"s{j}" for j in range(i)]})
                for i in range(int((size / 4) ** 0.5))
            ]
        ),
        "unknown targets": lambda size: _flow(
            [_step("a", dependsOn={"targets": [f"x{i}" for i in range(size // 8)]})]
        ),
        "references": lambda size: _flow([_step("a", args=["$(params.x) " * (size // 12)])]),
        "many references": lambda size: _flow(
            [_step("a", args=[f"$(params.x{i})" for i in range(size // 18)])]
        ),
        "open references": lambda size: _flow([_step("a", args=["$(" * (size // 2)])]),
        "dollars": lambda size: _flow([_step("a", args=["$" * size])]),
        "expressions": lambda size: _flow(
            [_step(f"s{i}", when="1 == 1 && true") for i in range(size // 80)]
        ),
        "long expression": lambda size: _flow(
            [_step("a", when="1 == 1 && " * (size // 10) + "true")]
        ),
        "brackets of an expression": lambda size: _flow([_step("a", when="(" * size)]),
        "durations": lambda size: _flow(
            [_step(f"s{i}", timeout="1" * 50) for i in range(size // 120)]
        ),
        "params": lambda size: _flow(
            [_step("a")], params={f"p{i}": "v" for i in range(size // 14)}
        ),
        "items": lambda size: _flow([_step("a", forEach={"items": [*range(size // 8)]})]),
        "children": lambda size: _flow(
            [{"name": f"s{i}", "flow": {"flows": [_step("a")]}} for i in range(size // 110)]
        ),
        "levels": lambda size: _nested_flow(size // 60),
        "env": lambda size: _flow(
            [_step("a", env=[{"name": f"E{i}", "value": "$(params.x)"} for i in range(size // 50)])]
        ),
        "old steps": lambda size: _flow([_step(f"S{i}") for i in range(size // 60)]).replace(
            "flow.volcano", "batch.volcano"
        ),
        "old names": lambda size: _flow(
            [_step("A_" * (i % 9 + 1)) for i in range(size // 70)]
        ).replace("flow.volcano", "batch.volcano"),
        **{f"workflow: {name}": make for name, make in _workflows().items()},
    }


def _workflows() -> dict[str, Callable[[int], str]]:
    leaf = {"name": "c", "container": {"image": "i", "args": ["{{inputs.parameters.x}}"]}}
    leaf["inputs"] = {"parameters": [{"name": "x", "value": "v"}]}

    def dag(count: int, task: Callable[[int], dict[str, Any]], *others: Any) -> str:
        tasks = [{"name": f"t{i}", "template": "c"} | task(i) for i in range(count)]
        return _workflow([{"name": "m", "dag": {"tasks": tasks}}, leaf, *others])

    def argument(value: Any) -> dict[str, Any]:
        return {"arguments": {"parameters": [{"name": "x", "value": value}]}}

    def script(text: str) -> str:
        return _workflow([{"name": "m", "container": {"image": "i", "args": [text]}}])

    def when(text: str) -> str:
        return _workflow(
            [{"name": "m", "steps": [[{"name": "a", "template": "c", "when": text}]]}, leaf]
        )

    def edges(join: str, size: int) -> str:
        return dag(
            int((size / 4) ** 0.5), lambda i: {"depends": join.join(f"t{j}" for j in range(i))}
        )

    def multiplied(size: int) -> str:
        """Templates that call each other several times."""
        wide = size // 300
        levels = [
            {
                "name": f"l{n}" if n else "m",
                "steps": [[{"name": f"s{i}", "template": f"l{n + 1}"} for i in range(wide)]],
            }
            for n in range(4)
        ]
        return _workflow([*levels, leaf | {"name": "l4"}])

    def doubled(size: int) -> str:
        """Inputs whose defaults contain the one before twice."""
        twice = (f"{{{{inputs.parameters.x{i}}}}}" * 2 for i in range(size // 90))
        values = ["0123456789", *twice]
        inputs = [{"name": f"x{i}", "value": value} for i, value in enumerate(values)]
        last = f"{{{{inputs.parameters.x{len(inputs) - 1}}}}}"
        return _workflow(
            [
                {"name": "m", "steps": [[{"name": "a", "template": "d"}]]},
                {"name": "d", "inputs": {"parameters": inputs}, "container": {"image": last}},
            ]
        )

    return {
        "tasks": lambda size: dag(size // 45, lambda i: {}),
        "chain": lambda size: dag(size // 70, lambda i: {"depends": f"t{i - 1}"} if i else {}),
        "chain of conditions": lambda size: dag(
            size // 110,
            lambda i: {"when": "1 == 1"} | ({"dependencies": [f"t{i - 1}"]} if i else {}),
        ),
        "finished": lambda size: dag(
            size // 100, lambda i: {"depends": f"t{i - 1} || t{i - 1}.Failed"} if i else {}
        ),
        "all of": lambda size: edges(" && ", size),
        "any of": lambda size: edges(" || ", size),
        "any failed": lambda size: edges(".Failed || ", size),
        "unknown": lambda size: dag(
            1, lambda i: {"depends": " && ".join(["x || y"] * (size // 10))}
        ),
        "brackets of depends": lambda size: dag(1, lambda i: {"depends": "(" * size}),
        "spaces of depends": lambda size: dag(1, lambda i: {"depends": "a" + " " * size + "?"}),
        "negations": lambda size: dag(1, lambda i: {"depends": "!" * size + "t0"}),
        "results": lambda size: dag(
            size // 130, lambda i: argument(f"{{{{tasks.t{i - 1}.outputs.result}}}}") if i else {}
        ),
        "same names": lambda size: dag(size // 60, lambda i: {"name": "a"}),
        "items": lambda size: dag(
            1, lambda i: {"withItems": [{"k": n} for n in range(size // 10)]}
        ),
        "hooks": lambda size: dag(size // 80, lambda i: {"onExit": "c"}),
        "templates": lambda size: dag(
            1, lambda i: {}, *(leaf | {"name": f"c{i}"} for i in range(size // 130))
        ),
        "unread keys": lambda size: dag(size // 55, lambda i: {"unread": 1}),
        "multiplied": multiplied,
        "doubled inputs": doubled,
        "open tags": lambda size: script("{{" * (size // 2)),
        "tags": lambda size: script("{{workflow.name}}" * (size // 17)),
        "expressions": lambda size: script("{{=workflow.name + 'a'}}" * (size // 24)),
        "different expressions": lambda size: script(
            " ".join(f"{{{{=workflow.name + '{i}'}}}}" for i in range(size // 28))
        ),
        "unknown tags": lambda size: script(" ".join(f"{{{{x.y{i}}}}}" for i in range(size // 12))),
        "brackets of a tag": lambda size: script("{{=" + "(" * size + "}}"),
        "a tag of spaces": lambda size: script("{{=" + " " * size + "}}"),
        "conjunction": lambda size: when("{{= 1" + " && 1" * (size // 5) + "}}"),
        "sum": lambda size: when("{{= 1" + " + 1" * (size // 4) + "}}"),
        "members": lambda size: when("{{= a" + ".b" * (size // 2) + "}}"),
        "nested calls": lambda size: when(_calls(min(size // 30, 29))),
        "open tags of a condition": lambda size: when("{{" * (size // 2)),
        "item": lambda size: when("{{item" * (size // 6)),
        "a patch": lambda size: _workflow(
            [leaf | {"name": "m", "podSpecPatch": "{a: " + "[" * size}, leaf],
            podSpecPatch=_anchors(size // 3),
        ),
        "a list of lists": lambda size: dag(1, lambda i: {"withParam": "[" * size + "]" * size}),
        "digits": lambda size: dag(
            1,
            lambda i: {
                "withSequence": {
                    "start": "1" * size,
                    "end": "9" * size,
                    "format": "%9" + "0" * size + "d",
                }
            },
            leaf | {"name": "r", "retryStrategy": {"limit": "9" * size}},
        ),
        "schedules": lambda size: _workflow(
            [leaf | {"name": "m"}] * 30,
            kind="CronWorkflow",
            schedules=["* * * * *"] * (size // 15),
        ),
        "volumes": lambda size: _workflow(
            [
                {
                    "name": "m",
                    "dag": {
                        "tasks": [{"name": f"t{i}", "template": "c"} for i in range(size // 100)]
                    },
                },
                leaf,
            ],
            volumes=[{"name": f"v{i}", "emptyDir": {}} for i in range(size // 80)],
        ),
        "workflows": lambda size: "---\n".join(
            _workflow([leaf | {"name": "m"}]) for _ in range(size // 300)
        ),
    }


def _calls(depth: int) -> str:
    text = "workflow.name"
    for _ in range(depth):
        text = f"sprig.default('a', {text})"
    return f"{{{{={text}}}}}"


def _workflow(
    templates: Sequence[Any], kind: str = "Workflow", schedules: Sequence[str] = (), **spec: Any
) -> str:
    own: dict[str, Any] = {"entrypoint": "m", "templates": [*templates], **spec}
    if kind == "CronWorkflow":
        own = {"schedules": [*schedules], "workflowSpec": own}
    return (
        json.dumps(
            {
                "apiVersion": "argoproj.io/v1alpha1",
                "kind": kind,
                "metadata": {"name": "w"},
                "spec": own,
            }
        )
        + "\n"
    )


def _flow(steps: Sequence[Any], **spec: Any) -> str:
    return _flow_text(json.dumps({"flows": [*steps], **spec}))


def _flow_text(spec: str) -> str:
    head = "apiVersion: flow.volcano.sh/v1alpha1\nkind: JobFlow\nmetadata: {name: f}\n"
    return f"{head}spec: {spec}\n"


def _step(name: str, args: Any = None, env: Any = None, **fields: Any) -> dict[str, Any]:
    further = {"args": args, "env": env}
    container = JOB | {key: value for key, value in further.items() if value is not None}
    return {"name": name, "container": container, **fields}


def _nested_flow(levels: int) -> str:
    inside = '{"flows": [{"name": "s", "flow": ' * levels
    return _flow_text(inside + "{}" + "}]}" * levels)


def _anchors(size: int) -> str:
    """Each list contains the one before it nine times."""
    lines = (f"a{i + 1}: &a{i + 1} [" + ", ".join([f"*a{i}"] * 9) + "]" for i in range(size // 60))
    return "\n".join(("a0: &a0 [x]", *lines))


def _merges(size: int) -> str:
    """Each mapping merges all keys of the one before it."""
    lines = (f"a{i + 1}: &a{i + 1} {{<<: *a{i}, k{i + 1}: 1}}" for i in range(size // 45))
    return "\n".join(("a0: &a0 {k0: 1}", *lines))
