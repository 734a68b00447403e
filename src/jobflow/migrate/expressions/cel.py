"""CEL for Argo's expressions. In Argo, types follow from how values look in the text; in CEL, a
comparison turns a value into the type of what it is compared with."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, replace

from jobflow.migrate.expressions import functions, syntax, values
from jobflow.migrate.expressions.parse import parse, split_tags
from jobflow.migrate.expressions.syntax import LEVELS, Level
from jobflow.migrate.expressions.values import Kind, Ref, Text, UnsupportedExpression, quote

_COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_MACROS = {
    "filter": "filter",
    "map": "map",
    "all": "all",
    "any": "exists",
    "one": "exists_one",
    # These two have no macro of their own, but follow from one.
    "none": "exists",
    "count": "filter",
}
_OUR_PHASES = {"Succeeded": "Completed", "Error": "Failed", "Omitted": "Skipped"}
# Variables of closures inside of each other, for which expr-lang has only `#`.
_VARIABLES = "ijkmn"
# Characters of a call; an expression of a flow has at most 1,024.
_MAX_CEL = 8_192
_TEXTS = (Kind.TEXT, Kind.ANY)
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


def condition_to_cel(text: str, resolve: values.Resolve) -> str:
    """Return a `when` as CEL that is true or false. Raises UnsupportedExpression."""
    return _truth(_Writer(resolve).write(parse(text, bare_words=True)))


def test_to_cel(text: str, resolve: values.Resolve) -> str:
    """Return an expression of expr-lang as CEL of a test. Raises UnsupportedExpression."""
    return _truth(_Writer(resolve).write(parse(_inner(text))))


def expression_to_ref(text: str, resolve: values.Resolve) -> Ref:
    """Return an expression of expr-lang as a value. Raises UnsupportedExpression."""
    return _Writer(resolve).write(parse(_inner(text))).ref


def expand_tags(text: str, resolve: values.Resolve) -> Text:
    """Return a text with its tags resolved. Raises UnsupportedExpression."""
    found, size = list[Text](), 0
    for i, piece in enumerate(split_tags(text)):
        found.append(tag_value(piece, resolve) if i % 2 else (piece,))
        size += sum(len(part if isinstance(part, str) else part.cel) for part in found[-1])
        if size > _MAX_CEL:
            raise UnsupportedExpression("it is too long in CEL")
    return values.join(*found)


def tag_value(tag: str, resolve: values.Resolve) -> Text:
    """Return the value of what stands in `{{…}}`. Raises UnsupportedExpression."""
    tag = tag.strip()
    if not tag.startswith("="):
        return resolve(tuple(tag.split(".")))
    written = _Writer(resolve).write(parse(tag[1:]))
    return (written.constant if isinstance(written.constant, str) else written.ref,)


def _inner(text: str) -> str:
    """Return an expression without the brackets of a tag, which some fields allow."""
    text = text.strip()
    is_tag = text.startswith("{{") and text.endswith("}}") and "{{" not in text[2:]
    return text[2:-2].strip().removeprefix("=") if is_tag else text


def _of(text: str, kind: Kind, level: int = Level.ATOM) -> _Cel:
    return _Cel(Ref(text, kind=kind), level)


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


def _value(ref: Ref) -> _Cel:
    """Return the CEL of a value, which may have operators of its own."""
    return _Cel(ref, Level.CHOICE if " " in values.without_brackets(ref.cel) else Level.ATOM)


def _truth(written: _Cel) -> str:
    if written.ref.kind is Kind.BOOL:
        return written.ref.cel
    if isinstance(written.constant, str):
        return "true" if written.constant == "true" else "false"
    return f'{values.as_text(written.ref)} == "true"'


@dataclass(slots=True)
class _Writer:
    resolve: values.Resolve
    loops: int = 0

    def write(self, node: syntax.Node) -> _Cel:
        match node:
            case syntax.Literal(None):
                raise UnsupportedExpression("CEL has no comparison with nil")
            case syntax.Literal(value):
                assert value is not None, "matched above"
                return _constant(value)
            case syntax.Tagged(tagged, quoted=is_quoted):
                text = expand_tags(tagged, self.resolve)
                if (plain := values.literal(text)) is not None:
                    return _constant(plain) if is_quoted else _bare(plain)
                ref = values.as_ref(text)
                return _value(ref) if len(text) == 1 else _Cel(ref, Level.CHOICE)
            case syntax.Name("#") if self.loops:
                return _of(_VARIABLES[self.loops - 1], Kind.JSON)
            case syntax.Name() | syntax.Member():
                return self._path(node)
            case syntax.Call():
                return self._call(node)
            case syntax.Operation("??", (value, default)):
                ref, other = self.write(value).ref, self.write(default).within(Level.CHOICE)
                if not ref.or_else:
                    raise UnsupportedExpression("?? is converted only for outputs of steps")
                cel = ref.or_else.replace("%s", other)
                return _Cel(replace(ref, cel=cel, path="", or_else=""))
            case syntax.Operation():
                return _operation(node.operator, [self.write(each) for each in node.operands])
            case syntax.ListOf(items):
                written = ", ".join(self.write(item).ref.cel for item in items)
                return _of(f"[{written}]", Kind.LIST)
            case syntax.MapOf(entries):
                pairs = (f"{quote(key)}: {self.write(value).ref.cel}" for key, value in entries)
                return _of(f"{{{', '.join(pairs)}}}", Kind.JSON)
            case _:
                raise UnsupportedExpression("slices and closures have no equal there")

    def _path(self, node: syntax.Name | syntax.Member) -> _Cel:
        keys = _keys(node)
        if keys is not None and keys[0] != "#":
            text = self.resolve(keys)
            plain = values.literal(text)
            return _constant(plain) if plain is not None else _value(values.as_ref(text))
        if isinstance(node, syntax.Name):  # also # outside of a closure
            raise UnsupportedExpression(f'"{node.name}" has no equal')
        value = self.write(node.value).within(Level.ATOM)
        key = node.key
        if isinstance(key, syntax.Literal) and isinstance(key.value, str):
            return _of(value + values.member(key.value), Kind.JSON)
        return _of(f"{value}[{self.write(key).ref.cel}]", Kind.JSON)

    def _call(self, node: syntax.Call) -> _Cel:
        name, arguments = ".".join(_keys(node.function) or ()), node.arguments
        if len(arguments) > 1 and isinstance(closure := arguments[1], syntax.Closure):
            if name not in _MACROS or self.loops >= len(_VARIABLES):
                raise UnsupportedExpression(f"the function {name} has no equal")
            source = self.write(arguments[0]).within(Level.ATOM)
            variable = _VARIABLES[self.loops]
            self.loops += 1
            body = self.write(closure.body)
            self.loops -= 1
            inner = body.ref.cel if name == "map" else _truth(body)
            text = f"{source}.{_MACROS[name]}({variable}, {inner})"
            if name == "count":
                return _of(f"size({text})", Kind.NUMBER)
            if name == "none":
                return _of(f"!{text}", Kind.BOOL, Level.SIGN)
            return _of(text, Kind.LIST if name in ("filter", "map") else Kind.BOOL)
        written = [self.write(each) for each in arguments]
        constants = [each.constant for each in written]
        refs = [replace(each.ref, cel=each.within(Level.ATOM)) for each in written]
        ref = functions.call(name, refs, constants)
        if len(ref.cel) > _MAX_CEL:  # calls that use an argument twice double it
            raise UnsupportedExpression("it is too long in CEL")
        return _value(ref)


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


def _operation(sign: str, written: list[_Cel]) -> _Cel:
    tests = [replace(each, ref=replace(each.ref, cel=_truth(each))) for each in written]
    match sign, written:
        case (("&&" | "||"), _):
            joined = f" {sign} ".join(each.within(LEVELS[sign]) for each in tests)
            return _of(joined, Kind.BOOL, LEVELS[sign])
        case "?:", (_, taken, other):
            text = f"{tests[0].within(Level.OR)} ? {taken.within(Level.OR)}"
            kind = taken.ref.kind if taken.ref.kind is other.ref.kind else Kind.ANY
            return _of(f"{text} : {other.within(Level.CHOICE)}", kind, Level.CHOICE)
        case "!", (value,):
            is_test = value.ref.kind is Kind.BOOL and value.level == Level.ATOM
            text = tests[0].ref.cel
            return _of(f"!{text}" if is_test else f"!({text})", Kind.BOOL, Level.SIGN)
        case "-", (value,):
            return _of(f"-{value.within(Level.ATOM)}", Kind.NUMBER, Level.SIGN)
        case (("==" | "!=" | "<" | "<=" | ">" | ">="), (left, right)):
            return _comparison(sign, left, right)
        case (("in" | "not in"), (left, right)):
            is_text = left.ref.kind is Kind.ANY
            item = values.as_text(left.ref) if is_text else left.within(Level.RELATION)
            # A text is a list in JSON.
            is_json = right.ref.kind is Kind.TEXT
            listed = f"json({right.ref.cel})" if is_json else right.within(Level.SUM)
            text = f"{item} in {listed}"
            if sign == "in":
                return _of(text, Kind.BOOL, LEVELS["in"])
            return _of(f"!({text})", Kind.BOOL, Level.SIGN)
        case (("+" | "-" | "*" | "/" | "%"), (left, right)):
            level = LEVELS[sign]
            if sign == "+" and left.ref.kind in _TEXTS and right.ref.kind in _TEXTS:
                text = f"{values.as_text(left.ref)} + {values.as_text(right.ref)}"
                return _of(text, Kind.TEXT, level)
            # Operators bind to the left, so a right operand of the same level needs brackets.
            sides = [
                f"int({each.ref.cel})" if each.ref.kind in _TEXTS else each.within(level + n)
                for n, each in enumerate((left, right))
            ]
            return _of(f" {sign} ".join(sides), Kind.NUMBER, level)
        case (("contains" | "startsWith" | "endsWith" | "matches" | "=~" | "!~"), (left, right)):
            return _text_test(sign, left, right)
        case _:
            raise UnsupportedExpression(f'the operator "{sign}" has no equal')


def _text_test(sign: str, left: _Cel, right: _Cel) -> _Cel:
    subject = values.as_text(left.ref) if left.constant is None else left.ref.cel
    if sign == "contains" and left.ref.kind in (Kind.LIST, Kind.JSON):
        text = f"{right.ref.cel} in {left.within(Level.SUM)}"
        return _of(text, Kind.BOOL, Level.RELATION)
    if sign in ("contains", "startsWith", "endsWith"):
        return _of(f"{subject}.{sign}({right.ref.cel})", Kind.BOOL)
    # Admission checks patterns, so it has to know them.
    if right.constant is None:
        raise UnsupportedExpression("the pattern of a regular expression must be a literal text")
    text = f"{subject}.matches({quote(str(right.constant))})"
    return _of(f"!{text}" if sign == "!~" else text, Kind.BOOL, Level.SIGN)


def _comparison(sign: str, left: _Cel, right: _Cel) -> _Cel:
    equality, one, other = sign in ("==", "!="), left.constant, right.constant
    if one is None or other is None:
        sides = [_side(left, right, equality=equality), _side(right, left, equality=equality)]
        return _of(f" {sign} ".join(sides), Kind.BOOL, LEVELS[sign])
    # In govaluate, an integer may equal a float; a text or a boolean only another one.
    same = type(one) is type(other) or not ({str, bool} & {type(one), type(other)})
    if equality:
        return _constant((same and one == other) == (sign == "=="))
    if not same:
        raise UnsupportedExpression("a text cannot be compared with a number")
    return _constant(_COMPARISONS[sign](one, other))  # type: ignore[arg-type]


def _side(own: _Cel, other: _Cel, *, equality: bool) -> str:
    """Return one side of a comparison, with the type of the other one."""
    kind, beside = own.ref.kind, other.ref.kind
    if own.constant is not None:
        if beside is Kind.PHASE and isinstance(own.constant, str):
            # The phases of a flow are other words than those of its steps.
            phases = {"Succeeded": "Succeed"} if other.ref.raw == "flow.phase" else _OUR_PHASES
            return quote(phases.get(own.constant, own.constant))
        if equality and beside in _TEXTS and kind is not Kind.TEXT:
            return quote(own.ref.cel)
        return own.ref.cel
    if kind is Kind.PHASE:
        return own.ref.raw if other.constant is not None else own.within(Level.SUM)
    if kind in _TEXTS:
        # Only an order needs numbers; texts are equal if they look the same.
        if not equality and (beside is not Kind.TEXT or other.constant is None):
            return f"double({own.ref.cel})"
        return values.as_text(own.ref)
    if beside is Kind.TEXT and kind is Kind.NUMBER and equality:
        return f"string({own.ref.cel})"
    return own.within(Level.SUM)
