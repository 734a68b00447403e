"""Differences of two runs, in a line."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from jobflow.core.json_values import maps
from jobflow.core.manifests.fingerprint import find_differences
from jobflow.core.text import format_count, join_names, printable, shorten

_SHOWN = 2
"""Differences in a line; others are counted."""
_LONGEST = 60
"""Characters of a value."""
_CONTAINER = re.compile(r"tasks\[[^\]]*\]\.template\.spec\.containers\[[^\]]*\]\.")


def describe_change(before: Sequence[Any], after: Sequence[Any]) -> str:
    """Return what differs between two runs, as `started.run.compared` has them."""
    if differences := [*find_differences(before[0], after[0])]:
        return _describe_all(differences, after[0])
    if names := [path for path, _, _ in find_differences(before[1][0], after[1][0])]:
        targets = "target" if len(names) == 1 else "targets"
        return f"it is made of something else: its {targets} {join_names(names)}"
    return "the end of its repeat differs"


def _describe_all(differences: Sequence[tuple[str, Any, Any]], spec: Mapping[str, Any]) -> str:
    """Return `args[1] differs: 0.01 → 0.1` for differences as `find_differences` has them. `spec`:
    the new one; in its only container, paths begin with a field of that."""
    pods = [(task.get("template") or {}).get("spec") or {} for task in maps(spec.get("tasks"))]
    is_single = [len(maps(pod.get("containers"))) for pod in pods] == [1]
    parts = [_describe(*each, is_single=is_single) for each in differences[:_SHOWN]]
    if (more := len(differences) - _SHOWN) > 0:
        parts.append(format_count(more, "more difference"))
    return "; ".join(parts)


def _describe(path: str, old: Any, new: Any, *, is_single: bool) -> str:
    path = _CONTAINER.sub("", path) if is_single else path.replace(".template.spec", "")
    if isinstance(old, str) and isinstance(new, str) and "\n" in old + new:
        olds, news = old.splitlines(), new.splitlines()
        pairs = zip(olds, news, strict=False)
        line = next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(olds), len(news)))
        path = f"{path} line {line + 1}"
        old, new = ("".join(side[line : line + 1]).strip() for side in (olds, news))
    return f"{printable(path)} differs: {_value(old)} → {_value(new)}"


def _value(value: Any) -> str:
    if value is None:
        return "not set"
    text = value if isinstance(value, str) and value else msgspec.json.encode(value).decode()
    return shorten(printable(text), _LONGEST)
