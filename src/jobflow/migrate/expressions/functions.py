"""Functions of expr-lang and Sprig that have an equal in CEL, among them JSON paths."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from jobflow.migrate.expressions import values
from jobflow.migrate.expressions.values import Kind, Ref, UnsupportedExpression, member, quote

_PARSED = (Kind.LIST, Kind.JSON)


def call(name: str, arguments: Sequence[Ref], constants: Sequence[object]) -> Ref:
    """Return the call of a function; `constants` has the value of each argument that is a literal,
    else None. Raises UnsupportedExpression."""
    if name == "jsonpath" and len(arguments) == 2 and isinstance(constants[1], str):
        source = arguments[0]
        value = source.cel if source.kind in _PARSED else f"json({source.cel})"
        return Ref(select(value, constants[1]), kind=Kind.JSON)
    # Some functions of Sprig have the name of one of expr-lang, with other arguments.
    plain, count = name.removeprefix("sprig."), len(arguments)
    for key in ((name, count), (plain, count), (plain, -1)):
        if key in _FUNCTIONS:
            return _FUNCTIONS[key](*arguments)
    raise UnsupportedExpression(f"the function {name} has no equal")


def _number(name: str) -> Callable[[Ref], Ref]:
    def convert(value: Ref) -> Ref:
        cel = value.cel if value.kind is Kind.NUMBER else f"{name}({value.cel})"
        return Ref(cel, kind=Kind.NUMBER)

    return convert


def _method(name: str, kind: Kind = Kind.TEXT, *, is_last: bool = False) -> Callable[..., Ref]:
    """Return a function that is a method in CEL. Sprig's take the text as the last argument."""

    def convert(*arguments: Ref) -> Ref:
        value, others = arguments[0], arguments[1:]
        if is_last:
            value, others = arguments[-1], arguments[:-1]
        # A number or a boolean has no methods of texts.
        has_method = value.kind in (Kind.LIST, Kind.JSON, Kind.TEXT)
        subject = value.cel if has_method else values.as_text(value)
        return Ref(f"{subject}.{name}({', '.join(each.cel for each in others)})", kind=kind)

    return convert


def _infix(sign: str) -> Callable[..., Ref]:
    def convert(*operands: Ref) -> Ref:
        sides = [f"int({v.cel})" if v.kind in (Kind.TEXT, Kind.ANY) else v.cel for v in operands]
        return Ref(f"({f' {sign} '.join(sides)})", kind=Kind.NUMBER)

    return convert


def _extreme(name: str) -> Callable[..., Ref]:
    def convert(*operands: Ref) -> Ref:
        listed = ", ".join(value.cel for value in operands)
        return Ref(f"[{listed}].{name}()", kind=Kind.NUMBER)

    return convert


# By name and number of arguments; -1: any number.
_FUNCTIONS: dict[tuple[str, int], Callable[..., Ref]] = {
    **{(name, 1): _number("int") for name in ("asInt", "int", "int64", "atoi", "toInt")},
    **{(name, 1): _number("double") for name in ("asFloat", "float", "float64")},
    **{
        (name, 1): lambda value: Ref(values.as_text(value), kind=Kind.TEXT)
        for name in ("string", "toString")
    },
    **{
        # A part of JSON becomes a text only where one is asked for.
        (name, 1): lambda value: (
            replace(value, kind=Kind.LIST, path="") if value.kind is Kind.JSON else value
        )
        for name in ("toJson", "toJSON")
    },
    **{
        (name, 1): lambda value: (
            value if value.kind in _PARSED else Ref(f"json({value.cel})", kind=Kind.JSON)
        )
        for name in ("fromJson", "fromJSON", "mustFromJson")
    },
    ("len", 1): lambda value: Ref(f"size({value.cel})", kind=Kind.NUMBER),
    ("lower", 1): _method("lowerAscii"),
    ("upper", 1): _method("upperAscii"),
    ("trim", 1): _method("trim"),
    ("split", 2): _method("split", Kind.LIST),
    ("join", 2): _method("join"),
    ("replace", 3): _method("replace"),
    ("splitList", 2): _method("split", Kind.LIST, is_last=True),
    ("sprig.replace", 3): _method("replace", is_last=True),
    ("hasPrefix", 2): _method("startsWith", Kind.BOOL, is_last=True),
    ("hasSuffix", 2): _method("endsWith", Kind.BOOL, is_last=True),
    ("contains", 2): _method("contains", Kind.BOOL, is_last=True),
    ("add", -1): _infix("+"),
    ("sub", 2): _infix("-"),
    ("mul", -1): _infix("*"),
    ("div", 2): _infix("/"),
    ("mod", 2): _infix("%"),
    ("max", -1): _extreme("max"),
    ("min", -1): _extreme("min"),
    # To Sprig, an empty text is as good as none.
    ("default", 2): lambda default, value: Ref(
        f'({values.as_text(value)} == "" ? {default.cel} : {value.cel})', kind=value.kind
    ),
    ("ternary", 3): lambda yes, no, test: Ref(
        f"({test.cel} ? {yes.cel} : {no.cel})", kind=yes.kind
    ),
}


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


def select(value: str, path: str) -> str:
    """Return CEL of what a JSON path selects in a CEL value. After a wildcard or a filter, it is a
    list. Raises UnsupportedExpression."""
    if not path.startswith("$"):
        raise UnsupportedExpression(f'the JSON path "{path}" does not begin with $')
    at, found, of_each = 1, value, ""
    is_list = False
    while at < len(path):
        part = _PART.match(path, at)
        if part is None:
            raise UnsupportedExpression(f'the JSON path "{path}" has no equal')
        at = part.end()
        if part["all"] or part["first"] or part["filter"]:
            if is_list:
                raise UnsupportedExpression(f'the JSON path "{path}" selects twice')
            is_list = True
            if part["first"]:
                first, count = int(part["first"]), int(part["last"]) - int(part["first"])
                offset = f"{first} + " if first else ""
                found = f"range({max(count, 0)}).map(x, {found}[{offset}x])"
            elif part["filter"]:
                pieces = _AND.split(part["filter"])
                terms = [f" {each} " if i % 2 else _term(each) for i, each in enumerate(pieces)]
                found = f"{found}.filter(x, {''.join(terms)})"
            continue
        index = part["index"]
        key = f"[{index}]" if index else member(part["name"] or part["quoted"][1:-1])
        if is_list:
            of_each += key
        else:
            found += key
    return f"{found}.map(x, x{of_each})" if of_each else found


def _term(text: str) -> str:
    found = _COMPARISON.fullmatch(text.strip())
    if found is None:
        raise UnsupportedExpression(f'the filter "{text}" of a JSON path has no equal')
    keys = [key for key in found["path"].split(".") if key]
    value = found["value"]
    constant = quote(value[1:-1]) if value[0] in "'\"" else value
    return f"x{''.join(map(member, keys))} {found['operator']} {constant}"
