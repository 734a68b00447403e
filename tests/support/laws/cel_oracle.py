"""CEL-C++ as a program of its own: it evaluates what it reads, one JSON line each.

It is native code that may end its process, and each null that it hands out takes a reference from
None (Python 3.11). So it runs apart from the tests, reads no null, and what it was asked when it
ended is answered by `ended`.

    echo '{"text": "1 + 1"}' | python tests/support/laws/cel_oracle.py
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from jobflow.core.cel.language.tree import Uint
from jobflow.core.cel.language.values import TypeOf, iterate_keys, to_key

FAILED, ENDED = ["error"], ["ended"]


def answers(texts: Sequence[str], variables: Mapping[str, Any]) -> Iterator[Any]:
    """Yield what CEL-C++ gives for each expression: a tagged value (`tagged`), FAILED or ENDED."""
    at = 0
    while at < len(texts):
        asked = json.dumps({"variables": variables, "texts": texts[at:]})
        command = [sys.executable, str(Path(__file__).resolve())]
        run = subprocess.run(
            command, input=asked, capture_output=True, text=True, check=False, timeout=100
        )
        lines = run.stdout.splitlines()
        yield from map(json.loads, lines)
        at += len(lines)
        if at < len(texts):
            yield ENDED
            at += 1


def tagged(value: Any) -> Any:
    """Return a value of ours as JSON that keeps types apart; CEL-C++ names its types otherwise."""
    match value:
        case None:
            return ["null"]
        case TypeOf():
            return ["type"]
        case list():
            return ["list", [tagged(each) for each in value]]
        case dict():
            return ["map", sorted([repr(k), tagged(value[to_key(k)])] for k in iterate_keys(value))]
    return [_NAMES[type(value)], repr(int(value) if isinstance(value, Uint) else value)]


_NAMES = {
    bool: "BOOL",
    int: "INT",
    Uint: "UINT",
    float: "DOUBLE",
    str: "STRING",
    bytes: "BYTES",
    datetime: "TIMESTAMP",
    timedelta: "DURATION",
}


def _serve() -> None:
    from cel_expr_python import cel

    asked = json.loads(sys.stdin.read())
    env = cel.NewEnv(variables=dict.fromkeys(asked["variables"], cel.Type.DYN))
    for text in asked["texts"]:
        try:
            found = env.compile(text, disable_check=True).eval(data=asked["variables"])
            answer = _tagged(found, cel.Type)
        except Exception:
            answer = FAILED
        print(json.dumps(answer), flush=True)


def _tagged(found: Any, kinds: Any) -> Any:
    """As `tagged` has it; the value of null is not read."""
    kind = found.type()
    if kind == kinds.ERROR or kind == kinds.UNKNOWN:
        return FAILED
    if kind == kinds.NULL:
        return ["null"]
    value = found.value()
    if isinstance(value, list):
        inner = [_tagged(each, kinds) for each in value]
        return FAILED if FAILED in inner else ["list", inner]
    if isinstance(value, dict):
        pairs = [[repr(key), _tagged(each, kinds)] for key, each in value.items()]
        return FAILED if any(FAILED in pair for pair in pairs) else ["map", sorted(pairs)]
    if kind == kinds.TYPE:
        return ["type"]
    return [kind.name(), repr(bytes(value) if isinstance(value, bytearray) else value)]


if __name__ == "__main__":
    _serve()
