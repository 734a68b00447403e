"""CEL for Argo's expressions.

Argo writes values into the text of a condition and then evaluates it, so that the types of values
follow from how they look. CEL has types. A comparison therefore turns a value into the type of what
it is compared with.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, replace

from jobflow.migrate.expressions import functions, syntax
from jobflow.migrate.expressions.parse import parse_condition, parse_expression, split_tags
from jobflow.migrate.expressions.syntax import LEVELS, Level
from jobflow.migrate.expressions.values import (
    Kind,
    Ref,
    Resolve,
    Text,
    UnsupportedExpression,
    as_ref,
    as_text,
    join,
    literal,
    member,
    quote,
    without_brackets,
)

_METHODS = {"contains": "contains", "startsWith": "startsWith", "endsWith": "endsWith"}
_COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_OUR_PHASES = {"Succeeded": "Completed", "Error": "Failed", "Omitted": "Skipped"}
_VARIABLES = "ijkmn"
_MAX_CEL = 8_192
"""Characters of a call; an expression of a flow has at most 1,024."""
Constant = str | int | float | bool


@dataclass(frozen=True, slots=True)
class _Cel:
    """CEL with the level of its outermost operator."""

    ref: Ref
    level: int = Level.ATOM
    constant: Constant | None = None

    def within(self, level: int) -> str:
        """Return the text, in brackets if its operator binds less than this level."""
        return self.ref.cel if self.level >= level else f"({self.ref.cel})"


def condition_to_cel(text: str, resolve: Resolve) -> str:
    """Return a `when` as CEL that is true or false. Raises UnsupportedExpression."""
    return _truth(_Writer(resolve).write(parse_condition(text)))


def test_to_cel(text: str, resolve: Resolve) -> str:
    """Return an expression of expr-lang as CEL that is true or false. Raises
    UnsupportedExpression."""
    return _truth(_Writer(resolve).write(parse_expression(_inner(text))))


def expression_to_ref(text: str, resolve: Resolve) -> Ref:
    """Return an expression of expr-lang as a value. Raises UnsupportedExpression."""
    return _Writer(resolve).write(parse_expression(_inner(text))).ref


def expand_tags(text: str, resolve: Resolve) -> Text:
    """Return a text with its tags resolved. Raises UnsupportedExpression."""
    found, size = list[Text](), 0
    for i, piece in enumerate(split_tags(text)):
        found.append(tag_value(piece, resolve) if i % 2 else (piece,))
        size += sum(len(part if isinstance(part, str) else part.cel) for part in found[-1])
        if size > _MAX_CEL:
            raise UnsupportedExpression("it is too long in CEL")
    return join(*found)


def tag_value(tag: str, resolve: Resolve) -> Text:
    """Return the value of what stands in `{{…}}`. Raises UnsupportedExpression."""
    tag = tag.strip()
    if not tag.startswith("="):
        return resolve(tuple(tag.split(".")))
    written = _Writer(resolve).write(parse_expression(tag[1:]))
    if isinstance(written.constant, str):
        return (written.constant,)
    return (written.ref,)


def _inner(text: str) -> str:
    """Return an expression without the brackets of a tag, which some fields allow."""
    text = text.strip()
    is_tag = text.startswith("{{") and text.endswith("}}") and "{{" not in text[2:]
    return text[2:-2].strip().removeprefix("=") if is_tag else text


def _constant(value: Constant) -> _Cel:
    if isinstance(value, str):
        return _Cel(Ref(quote(value), kind=Kind.TEXT), constant=value)
    if isinstance(value, bool):
        return _Cel(Ref("true" if value else "false", kind=Kind.BOOL), constant=value)
    return _Cel(Ref(str(value), kind=Kind.NUMBER), constant=value)


def _bare(text: str) -> _Cel:
    """Return a text as govaluate reads it without quotes."""
    if text in ("true", "false"):
        return _constant(text == "true")
    for number in (int, float):
        try:
            return _constant(number(text))
        except ValueError:
            continue
    return _constant(text)


def _truth(written: _Cel) -> str:
    if written.ref.kind is Kind.BOOL:
        return written.ref.cel
    if isinstance(written.constant, str):
        return "true" if written.constant == "true" else "false"
    return f'{as_text(written.ref)} == "true"'


@dataclass(slots=True)
class _Writer:
    resolve: Resolve
    loops: int = 0

    def write(self, node: syntax.Node) -> _Cel:
        """Return the CEL of a tree. Raises UnsupportedExpression."""
        match node:
            case syntax.Literal(None):
                raise UnsupportedExpression("CEL has no comparison with nil")
            case syntax.Literal(value):
                assert value is not None, "matched above"
                return _constant(value)
            case syntax.Tagged():
                return self._tagged(node)
            case syntax.Name("#") if self.loops:
                return _Cel(Ref(_VARIABLES[self.loops - 1], kind=Kind.JSON))
            case syntax.Name() | syntax.Member():
                return self._path(node)
            case syntax.Call():
                return self._call(node)
            case syntax.Operation():
                return self._operation(node)
            case syntax.ListOf(items):
                written = ", ".join(self.write(item).ref.cel for item in items)
                return _Cel(Ref(f"[{written}]", kind=Kind.LIST))
            case syntax.MapOf(entries):
                pairs = (f"{quote(key)}: {self.write(value).ref.cel}" for key, value in entries)
                return _Cel(Ref(f"{{{', '.join(pairs)}}}", kind=Kind.JSON))
            case _:
                raise UnsupportedExpression("slices and closures have no equal there")

    def _tagged(self, node: syntax.Tagged) -> _Cel:
        text = expand_tags(node.text, self.resolve)
        plain = literal(text)
        if plain is not None:
            return _constant(plain) if node.quoted else _bare(plain)
        ref = as_ref(text)
        return _Cel(
            ref, Level.ATOM if len(text) == 1 and not _is_compound(ref.cel) else Level.CHOICE
        )

    def _path(self, node: syntax.Name | syntax.Member) -> _Cel:
        keys = _keys(node)
        if keys is not None and keys[0] != "#":
            text = self.resolve(keys)
            plain = literal(text)
            if plain is not None:
                return _constant(plain)
            ref = as_ref(text)
            return _Cel(ref, Level.CHOICE if _is_compound(ref.cel) else Level.ATOM)
        if isinstance(node, syntax.Name):  # also # outside of a closure
            raise UnsupportedExpression(f'"{node.name}" has no equal')
        value = self.write(node.value)
        key = node.key
        if isinstance(key, syntax.Literal) and isinstance(key.value, str):
            return _Cel(Ref(value.within(Level.ATOM) + member(key.value), kind=Kind.JSON))
        return _Cel(Ref(f"{value.within(Level.ATOM)}[{self.write(key).ref.cel}]", kind=Kind.JSON))

    def _call(self, node: syntax.Call) -> _Cel:
        name = ".".join(_keys(node.function) or ())
        arguments = node.arguments
        if len(arguments) > 1 and isinstance(arguments[1], syntax.Closure):
            return self._loop(name, arguments[0], arguments[1])
        written = [self.write(each) for each in arguments]
        constants = [each.constant for each in written]
        ref = functions.call(
            name, [replace(e.ref, cel=e.within(Level.ATOM)) for e in written], constants
        )
        if len(ref.cel) > _MAX_CEL:  # calls that use an argument twice double it
            raise UnsupportedExpression("it is too long in CEL")
        return _Cel(ref, Level.CHOICE if _is_compound(ref.cel) else Level.ATOM)

    def _loop(self, name: str, listed: syntax.Node, closure: syntax.Closure) -> _Cel:
        macro = {"filter": "filter", "map": "map", "all": "all", "any": "exists"}
        macro |= {"one": "exists_one", "none": "exists", "count": "filter"}
        if name not in macro or self.loops >= len(_VARIABLES):
            raise UnsupportedExpression(f"the function {name} has no equal")
        source = self.write(listed).within(Level.ATOM)
        variable = _VARIABLES[self.loops]
        self.loops += 1
        body = self.write(closure.body)
        self.loops -= 1
        inner = body.ref.cel if name == "map" else _truth(body)
        text = f"{source}.{macro[name]}({variable}, {inner})"
        if name == "count":
            return _Cel(Ref(f"size({text})", kind=Kind.NUMBER))
        if name == "none":
            return _Cel(Ref(f"!{text}", kind=Kind.BOOL), Level.SIGN)
        return _Cel(Ref(text, kind=Kind.LIST if name in ("filter", "map") else Kind.BOOL))

    def _operation(self, node: syntax.Operation) -> _Cel:
        sign = node.operator
        if sign == "??":
            return self._or_else(*node.operands)
        written = [self.write(each) for each in node.operands]
        if sign in ("&&", "||"):
            texts = [replace(e, ref=replace(e.ref, cel=_truth(e))) for e in written]
            joined = f" {sign} ".join(each.within(LEVELS[sign]) for each in texts)
            return _Cel(Ref(joined, kind=Kind.BOOL), LEVELS[sign])
        if sign == "?:":
            test, taken, other = written
            text = f"{replace(test, ref=replace(test.ref, cel=_truth(test))).within(Level.OR)}"
            text += f" ? {taken.within(Level.OR)} : {other.within(Level.CHOICE)}"
            kind = taken.ref.kind if taken.ref.kind is other.ref.kind else Kind.ANY
            return _Cel(Ref(text, kind=kind), Level.CHOICE)
        if sign == "!":
            text = _truth(written[0])
            inner = (
                text if written[0].ref.kind is Kind.BOOL and written[0].level == Level.ATOM else ""
            )
            return _Cel(Ref(f"!{inner or f'({text})'}", kind=Kind.BOOL), Level.SIGN)
        if len(written) == 1:
            return _Cel(Ref(f"-{written[0].within(Level.ATOM)}", kind=Kind.NUMBER), Level.SIGN)
        return _binary(sign, *written)

    def _or_else(self, value: syntax.Node, default: syntax.Node) -> _Cel:
        ref = self.write(value).ref
        other = self.write(default).within(Level.CHOICE)
        if not ref.or_else:
            raise UnsupportedExpression("?? is converted only for outputs of steps")
        return _Cel(replace(ref, cel=ref.or_else.replace("%s", other), path="", or_else=""))


def _keys(node: syntax.Node) -> tuple[str, ...] | None:
    """Return the keys of a path of names, or None for any other value."""
    match node:
        case syntax.Name(name):
            return (name,)
        case syntax.Member(value, syntax.Literal(str(key))):
            above = _keys(value)
            return None if above is None else (*above, key)
        case _:
            return None


def _is_compound(cel: str) -> bool:
    """Whether CEL of a value has an operator outside of brackets."""
    return " " in without_brackets(cel)


def _binary(sign: str, left: _Cel, right: _Cel) -> _Cel:
    match sign:
        case "==" | "!=" | "<" | "<=" | ">" | ">=":
            return _comparison(sign, left, right)
        case "contains" | "startsWith" | "endsWith" | "matches" | "=~" | "!~":
            return _text_test(sign, left, right)
        case "in" | "not in":
            kind = right.ref.kind
            item = as_text(left.ref) if left.ref.kind is Kind.ANY else left.within(Level.RELATION)
            listed = f"json({right.ref.cel})" if kind is Kind.TEXT else right.within(Level.SUM)
            text = f"{item} in {listed}"
            if sign == "in":
                return _Cel(Ref(text, kind=Kind.BOOL), LEVELS["in"])
            return _Cel(Ref(f"!({text})", kind=Kind.BOOL), Level.SIGN)
        case "+" | "-" | "*" | "/" | "%":
            return _arithmetic(sign, left, right)
        case _:
            raise UnsupportedExpression(f'the operator "{sign}" has no equal')


def _arithmetic(sign: str, left: _Cel, right: _Cel) -> _Cel:
    texts = (Kind.TEXT, Kind.ANY)
    level = LEVELS[sign]
    if sign == "+" and (left.ref.kind in texts and right.ref.kind in texts):
        return _Cel(Ref(f"{as_text(left.ref)} + {as_text(right.ref)}", kind=Kind.TEXT), level)
    sides = [
        f"int({each.ref.cel})" if each.ref.kind in texts else each.within(level + n)
        for n, each in enumerate((left, right))
    ]
    return _Cel(Ref(f" {sign} ".join(sides), kind=Kind.NUMBER), level)


def _text_test(sign: str, left: _Cel, right: _Cel) -> _Cel:
    subject = as_text(left.ref) if left.constant is None else left.ref.cel
    if sign in _METHODS:
        if left.ref.kind in (Kind.LIST, Kind.JSON) and sign == "contains":
            return _Cel(
                Ref(f"{right.ref.cel} in {left.within(Level.SUM)}", kind=Kind.BOOL), Level.RELATION
            )
        return _Cel(Ref(f"{subject}.{_METHODS[sign]}({right.ref.cel})", kind=Kind.BOOL))
    if right.constant is None:
        raise UnsupportedExpression("the pattern of a regular expression must be a literal text")
    text = f"{subject}.matches({quote(str(right.constant))})"
    return _Cel(Ref(f"!{text}" if sign == "!~" else text, kind=Kind.BOOL), Level.SIGN)


def _comparison(sign: str, left: _Cel, right: _Cel) -> _Cel:
    if left.constant is not None and right.constant is not None:
        return _constant(_compare_constants(sign, left.constant, right.constant))
    equality = sign in ("==", "!=")
    sides = [_side(left, right, equality=equality), _side(right, left, equality=equality)]
    return _Cel(Ref(f" {sign} ".join(sides), kind=Kind.BOOL), LEVELS[sign])


def _compare_constants(sign: str, left: Constant, right: Constant) -> bool:
    same = type(left) is type(right) or not ({str, bool} & {type(left), type(right)})
    if sign in ("==", "!="):
        return (same and left == right) == (sign == "==")
    if not same:
        raise UnsupportedExpression("a text cannot be compared with a number")
    return _COMPARISONS[sign](left, right)  # type: ignore[arg-type]


def _side(own: _Cel, other: _Cel, *, equality: bool) -> str:
    """Return one side of a comparison, with the type of the other one."""
    kind, beside = own.ref.kind, other.ref.kind
    if own.constant is not None:
        if beside is Kind.PHASE and isinstance(own.constant, str):
            phases = {"Succeeded": "Succeed"} if other.ref.raw == "flow.phase" else _OUR_PHASES
            return quote(phases.get(own.constant, own.constant))
        if equality and beside in (Kind.TEXT, Kind.ANY) and kind is not Kind.TEXT:
            return quote(own.ref.cel)
        return own.ref.cel
    if kind is Kind.PHASE:
        return own.ref.raw if other.constant is not None else own.within(Level.SUM)
    if kind in (Kind.TEXT, Kind.ANY):
        if not equality and beside is not Kind.TEXT:
            return f"double({own.ref.cel})"
        if not equality and other.constant is None:
            return f"double({own.ref.cel})"
        return as_text(own.ref)
    if beside is Kind.TEXT and kind is Kind.NUMBER:
        return f"string({own.ref.cel})" if equality else own.within(Level.SUM)
    return own.within(Level.SUM)
