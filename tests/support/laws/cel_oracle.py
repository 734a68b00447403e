"""CEL-C++ in a process of its own, which writes the value of each expression as a line of JSON.

It is native code that may crash, and each null that it returns takes a reference from None (Python
3.11). So it runs outside the tests, never reads a null, and an expression that crashes it is ENDED.

    echo '{"text": "1 + 1"}' | python tests/support/laws/cel_oracle.py
"""

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
    """Yield the value of each expression in CEL-C++: tagged (see `tagged`), FAILED or ENDED."""
    at = 0
    while at < len(texts):
        request = json.dumps({"variables": variables, "texts": texts[at:]})
        command = [sys.executable, str(Path(__file__).resolve())]
        run = subprocess.run(
            command, input=request, capture_output=True, text=True, check=False, timeout=100
        )
        lines = run.stdout.splitlines()
        yield from map(json.loads, lines)
        at += len(lines)
        if at < len(texts):
            yield ENDED
            at += 1


def tagged(value: Any) -> Any:
    """Return our value as JSON with the type names of CEL-C++."""
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
    from cel_expr_python import cel  # type: ignore[import-untyped]
    from cel_expr_python.ext import ext_strings  # type: ignore[import-untyped]

    request = json.loads(sys.stdin.read())
    env = cel.NewEnv(
        variables=dict.fromkeys(request["variables"], cel.Type.DYN),
        extensions=[ext_strings.ExtStrings()],
    )
    for text in request["texts"]:
        try:
            found = env.compile(text, disable_check=True).eval(data=request["variables"])
            answer = _tagged(found, cel.Type)
        except Exception:
            answer = FAILED
        print(json.dumps(answer), flush=True)


def _tagged(found: Any, kinds: Any) -> Any:
    """Return a value of CEL-C++ as `tagged` does, without reading null."""
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
