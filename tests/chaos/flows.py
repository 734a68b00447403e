"""The flows that run through the chaos, and their templates."""

from typing import Any

from chaos.volcano import FAILS_FIRST
from support.sandbox.manifests import DIAMOND, jobflow, template

RETRY = {"retry": {"limit": 9, "backoff": {"duration": "1s"}}}


def after(*targets: str) -> dict[str, Any]:
    return {"dependsOn": {"targets": list(targets)}}


CHILD = {"flows": [{"name": "b"}, {"name": "c", **after("b")}]}
SHAPES: dict[str, list[dict[str, Any]]] = {
    "diamond": jobflow("", DIAMOND)["spec"]["flows"],
    "items": [
        {"name": "a", "forEach": {"count": 4, "parallelism": 2}},
        {"name": "b", **after("a")},
    ],
    "loop": [{"name": "a", "repeat": {"until": "index == 2", "max": 4}}],
    "retry": [{"name": "flaky", **RETRY}, {"name": "b", **after("flaky")}],
    "child": [
        {"name": "a"},
        {"name": "kid", **after("a"), "flow": CHILD},
        {"name": "d", **after("kid")},
    ],
}


def templates() -> list[dict[str, Any]]:
    """Return the templates of all steps."""
    flaky = template("flaky")
    flaky["metadata"]["annotations"][FAILS_FIRST] = "true"
    return [*(template(step) for step in DIAMOND), flaky]


def flow(name: str, shape: str) -> dict[str, Any]:
    """Return a flow of this shape, whose cleanup runs at the end."""
    cleanup = {"name": "cleanup", "template": "e"}
    manifest = jobflow(name, {}, timeout="30m")
    manifest["spec"] |= {"flows": SHAPES[shape], "finally": [cleanup]}
    return manifest
