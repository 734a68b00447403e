"""Hints: what to write instead of a value or a field that a CRD's schema does not have."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from typing import Any

from jobflow.api.duration import parse_duration
from jobflow.core.violations import Reason, Violation, join_path, quote

Path = Sequence[str | int]

_REFERENCE = re.compile(
    r"(?<!\$)\$\((?:item|index|(?:params|item|index|flow|steps|vars)\.[^()$\s]*)\)"
)
_DURATIONS = frozenset({("timeout",), ("backoff", "duration"), ("backoff", "max")})
_WRAPPED: Mapping[tuple[str, str], str] = {
    ("dependsOn", "array"): "targets: […]",
    ("dependsOn", "string"): "targets: […]",
    ("env", "array"): "NAME: …",
    ("env", "string"): "NAME: …",
    ("container", "array"): "image: …",
    ("container", "string"): "image: …",
    ("forEach", "array"): "items: […]",
    ("forEach", "string"): "from: …",
    ("forEach", "integer"): "count: …",
    ("repeat", "integer"): "until: …, max: …",
    ("retry", "integer"): "limit: …",
    ("backoff", "string"): "duration: …",
}
"""Field that is a map and the JSON type of a wrong value -> the content of the map."""
_NAMES = (("name",), ("image",), ("template",), ("targets",))
"""Fields of names, which YAML may read as booleans."""
_TRUTHS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}

_FLOW_WORDS: Mapping[str, str] = {
    "onExit": "spec.finally",
    "exitHandler": "spec.finally",
    "arguments": "spec.params",
    "inputs": "spec.params",
    "parameters": "spec.params",
    "ttlStrategy": "spec.ttlSecondsAfterSucceeded and spec.ttlSecondsAfterFailed",
    "volumeClaimTemplates": "spec.volumeClaims",
    "synchronization": "spec.concurrency",
    "mutex": "spec.concurrency",
    "failFast": "spec.failurePolicy",
    **dict.fromkeys(("steps", "tasks", "jobs", "stages", "nodes", "dag"), "spec.flows"),
    "templates": "spec.flows, with the work of each in container or jobSpec",
    "jobTemplate": "template of a step in spec.flows",
    **dict.fromkeys(("activeDeadlineSeconds", "timeoutSeconds"), "spec.timeout"),
}
"""Fields of other tools -> our fields."""
_STEP_WORDS: Mapping[str, str] = {
    "if": "when",
    "withItems": "forEach.items",
    "withParam": "forEach.from",
    "withSequence": "forEach.count",
    "matrix": "forEach.items",
    "retryStrategy": "retry",
    "retries": "retry.limit",
    "backoffLimit": "retry.limit",
    "dependencies": "dependsOn.targets",
    "depends": "dependsOn.targets",
    "runAfter": "dependsOn.targets",
    "needs": "dependsOn.targets",
    "templateRef": "template",
    "taskRef": "template",
    "continueOn": "continueOnFailure",
    "allowFailure": "continueOnFailure",
    "ignoreErrors": "continueOnFailure",
    "onFailure": "a step with dependsOn.condition: Failed",
    "onError": "a step with dependsOn.condition: Failed",
    **{name: ours for name, ours in _FLOW_WORDS.items() if name != "templates"},
    **dict.fromkeys(("activeDeadlineSeconds", "timeoutSeconds"), "timeout"),
    **dict.fromkeys(("jobTemplate", "jobTemplateName", "templateName", "taskName"), "template"),
    **dict.fromkeys(("steps", "tasks", "jobs", "dag"), "flow.flows"),
}
_LAST_CASE = "a case without when, the last"
_WORDS: Sequence[tuple[re.Pattern[str], Mapping[str, str]]] = (
    (re.compile(r"spec"), _FLOW_WORDS),
    (re.compile(r"spec\.(flows|finally)\[\d+\]"), _STEP_WORDS),
    (re.compile(r".*\.dependsOn"), {"steps": "targets"}),
    (re.compile(r".*\.retry"), {"maxAttempts": "limit", "attempts": "limit", "retries": "limit"}),
    (re.compile(r".*\.switch\[\d+\]"), {"case": "when", "if": "when", "default": _LAST_CASE}),
    (re.compile(r"spec\.params\[\d+\]"), {"default": "value"}),
)

_POD = "tasks[].template.spec"
JOB_WORDS: Mapping[str, str] = {
    "backoffLimit": "maxRetry",
    "cpu": f"{_POD}.containers[].resources.requests.cpu",
    "environment": f"{_POD}.containers[].env",
    "memory": f"{_POD}.containers[].resources.requests.memory",
    "parallelism": "tasks[].replicas",
    "resources": f"{_POD}.containers[].resources",
}
"""Fields that users look for under another name or at another place -> their place."""


def fields_of_other_tools(at: str) -> Mapping[str, str]:
    """Return the fields of other tools for the object at the JSON path `at`, with ours."""
    return {
        name: ours for place, words in _WORDS if place.fullmatch(at) for name, ours in words.items()
    }


def other_forms(key: str, value: Any) -> Iterator[Any]:
    """Yield what a value of another tool can be in our field of this key."""
    if isinstance(value, bool | int | float | str):
        if key == "timeout" and not isinstance(value, bool | str):
            yield f"{value}s"
        yield [value]
    elif isinstance(value, dict):
        yield from (value[each] for each in (key, "name", "parameters") if each in value)
        yield True


def json_path(path: Path) -> str:
    """Return the parts of a path as one text: `spec.flows[2].name`."""
    return reduce(join_path, path, "")


def mistyped(path: Path, expected: str, value: Any) -> Violation:
    """Return the violation for a wrong JSON type, with the message of k8s.io/kube-openapi."""
    at, found = json_path(path), type_name(value)
    place = f"{at} in body " if at else ""
    hint = _hint(path, expected, found, value)
    detail = f'{place}must be of type {expected}: "{found}"{hint}'
    return Violation(at, Reason.TYPE_INVALID, found, detail)


def type_name(value: Any) -> str:
    names = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array"}
    return "null" if value is None else names.get(type(value), "object")


def _hint(path: Path, expected: str, found: str, value: Any) -> str:
    """Return the hint for a value of the JSON type `found` instead of `expected`, or ""."""
    keys = tuple(part for part in path if isinstance(part, str))
    is_number = found in ("integer", "number")
    if found == "null":
        return "; remove the empty item" if path else ""
    # a reference cannot become a number here, however it is written
    if found == "string" and _REFERENCE.search(value):
        return "; references $(…) have no meaning here"
    match expected:
        case "string" if is_number and not _DURATIONS.isdisjoint((keys[-1:], keys[-2:])):
            return f'; write it with its unit: "{quote(value)}s"'
        case "string" if found == "boolean" and keys[-1:] in _NAMES:
            words = "y, yes and on" if value else "n, no and off"
            return f"; put it in quotes: YAML reads {words} as {quote(value)}"
        case "string" if is_number or found == "boolean":
            return f'; write "{quote(value)}", in quotes'
        case "array" if found == "string" and keys[-1:] == ("command",) and " " in value.strip():
            return f'; write a list: ["sh", "-c", {quote(value)}]'
        case "array" if found == "object" and keys[-1:] == ("env",):
            return '; write a list: [{name: …, value: "…"}]'
        case "array" if found != "object":
            return f"; write a list: [{quote(value)}]"
        case "array" if keys == ("spec", "params"):
            return "; write a list: [{name: …, value: …}]"
        case "object" if keys and (inner := _WRAPPED.get((keys[-1], found))) is not None:
            return f"; write {keys[-1]}: {{{inner}}}"
        case "integer" if found == "string" and re.fullmatch(r"-?[0-9]+", value):
            return f"; write {value}, without quotes"
        case "integer" if found == "string" and keys and keys[-1].startswith("ttlSecondsAfter"):
            try:
                return f"; write it in seconds: {parse_duration(value):.0f}"
            except ValueError:
                return ""
        case "boolean" if found == "string" and value.lower() in _TRUTHS:
            return f"; write {quote(_TRUTHS[value.lower()])}, without quotes"
    return ""
