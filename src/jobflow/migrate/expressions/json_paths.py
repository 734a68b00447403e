"""JSON paths of Argo's function `jsonpath` as CEL."""

from __future__ import annotations

import re

from jobflow.migrate.expressions.syntax import UnsupportedExpression
from jobflow.migrate.expressions.values import member, quote

_PART = re.compile(
    r"""\.(?P<name>[\w-]+)
    |\[(?P<quoted>'[^']*'|"[^"]*")\]
    |\[(?P<index>\d+)\]
    |(?P<all>\[\*\]|\.\*)
    |\[(?P<first>\d+):(?P<last>\d+)\]
    |\[\?\((?P<filter>[^\]]*)\)\]
    """,
    re.VERBOSE,
)
_AND = re.compile(r"\s*(&&|\|\|)\s*")
_COMPARISON = re.compile(
    r"@(?P<path>[\w.-]*)\s*(?P<operator>==|!=|<=|>=|<|>)\s*(?P<value>'[^']*'|\"[^\"]*\"|[\w.-]+)"
)
_VARIABLE = "x"


def select(value: str, path: str) -> str:
    """Return CEL of what a JSON path selects in a CEL value. After a wildcard or a filter, it is a
    list. Raises UnsupportedExpression."""
    if not path.startswith("$"):
        raise UnsupportedExpression(f'the JSON path "{path}" does not begin with $')
    at, found, each = 1, value, ""
    is_list = False
    while at < len(path):
        part = _PART.match(path, at)
        if part is None:
            raise UnsupportedExpression(f'the JSON path "{path}" has no equal')
        at = part.end()
        if part["all"] or part["first"] or part["filter"]:
            if is_list:
                raise UnsupportedExpression(f'the JSON path "{path}" selects twice')
            found, is_list = _selected(found, part), True
        elif is_list:
            each += _key(part)
        else:
            found += _key(part)
    return f"{found}.map({_VARIABLE}, {_VARIABLE}{each})" if each else found


def _key(part: re.Match[str]) -> str:
    if part["index"]:
        return f"[{part['index']}]"
    return member(part["name"] or part["quoted"][1:-1])


def _selected(value: str, part: re.Match[str]) -> str:
    if part["all"]:
        return value
    if part["first"]:
        first, count = int(part["first"]), int(part["last"]) - int(part["first"])
        offset = f"{first} + " if first else ""
        return f"range({max(count, 0)}).map({_VARIABLE}, {value}[{offset}{_VARIABLE}])"
    pieces = _AND.split(part["filter"])
    terms = [_term(piece) if i % 2 == 0 else f" {piece} " for i, piece in enumerate(pieces)]
    return f"{value}.filter({_VARIABLE}, {''.join(terms)})"


def _term(text: str) -> str:
    found = _COMPARISON.fullmatch(text.strip())
    if found is None:
        raise UnsupportedExpression(f'the filter "{text}" of a JSON path has no equal')
    keys = [key for key in found["path"].split(".") if key]
    value = found["value"]
    constant = quote(value[1:-1]) if value[0] in "'\"" else value
    return f"{_VARIABLE}{''.join(map(member, keys))} {found['operator']} {constant}"
