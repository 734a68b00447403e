"""Expressions have the values that CEL-C++ computes, in another process (`cel_oracle`)."""

from random import Random
from typing import Any

import pytest

from jobflow.core.cel.budget import Budget, CelError
from jobflow.core.cel.language.compiler import compile_program
from jobflow.core.cel.language.macros import EvaluationFrame
from jobflow.core.cel.language.parser import parse
from jobflow.core.cel.language.tree import CelSyntaxError
from support.laws.cel_grammar import VARIABLES, sensible
from support.laws.cel_oracle import ENDED, FAILED, answers, tagged
from support.laws.effort_of_laws import STRIDE

pytest.importorskip("cel_expr_python")

HANDWRITTEN = r"""
1u == 1
{1: 2}[1.0]
[1, 2][1.0]
{1: 1, 1: 2}
[null] == [null]
string(1.5e-7)
int(1e30)
int(-1.9)
uint(-0.5)
uint("18446744073709551615")
int("9223372036854775808")
string(timestamp("2026-01-01T00:00:00.5Z"))
duration("-90s").getMinutes()
duration("90s").getMilliseconds()
timestamp("2026-13-01T00:00:00Z")
timestamp("2026-01-02T03:04:05.678Z").getMilliseconds()
duration("1d")
-5 % 3
5 / -3
5.0 % 2.0
1 / 0
1.0 / 0.0
9223372036854775807 + 1
-9223372036854775808
-9223372036854775808 / -1
--1
1--1
!-1
-1u
!-x
1 < "a"
[1] < [2]
b"a" + b"\xff"
1 + 1.0
1 + 1u
"\u00e9".size()
size(b"\xff\xfe")
has({"a": 1}.b)
1 in {1.0: 2}
1 ? 2 : 3
true && 1
false && 1
1 && false
(1 / 0 == 1) || true
[0, 1].exists_one(i, 1 / i == 1)
[1, "a"].all(i, i > 0)
[1, 2].map(i, i > 1, i)
"\u00e9\n\x41\101"
"\q"
"\ud800"
b"\u00e9"
'''a'b'''
r"\n"
.5
1.5u
0x1Fu
[1,]
f(1,)
0.0 / 0.0 == 0.0 / 0.0
-0.0
{1: 1} == {1u: 1}
[[1], [2.0]] == [[1.0], [2]]
as == 1
true == 1
null < null
1 == 1 == true
false ? 1 : false ? 2 : 3
true ? false ? 1 : 2 : 3
a.b // c
"a" // "b"
"a".matches("[")
"a".startsWith(1)
x.size()
size(1, 2)
m["k"]
m[1]
l["a"]
l[-1]
l[1.5]
x.y
has(x.y)
has(m.q.z)
type(1) == int
type(type(1)) == type
"".split("")
"abc".split("", 2)
"a,b,,c".split(",")
"a,b,c".split(",", 0)
"a,b,c".split(",", -2)
"a".split(1)
["a", "b"].join(1)
[1].join()
"abc".replace("", "-", 2)
"abc".replace("b", "x", 0)
"A\u00c9Zz".lowerAscii()
"a\u00e9Zz".upperAscii()
" \t\u00a0\u2003\u001cx\u200b\u0085".trim()
"%s".format([])
"%s".format(["a", 1])
"%".format([1])
"%q".format([1])
"%03d".format([5])
"%.100f".format([5])
"%.2f".format([1.005])
"%.0f %f".format([2.5, 1])
"%e".format([12345.678])
"%f %f".format([0.0 / 0.0, -1.0 / 0.0])
"%b %o %x %X".format([-5, 8, 255, -255])
"%x %X".format(["h\u00e9", b"\xff"])
"%d".format(["a"])
"%s".format([[1, "a", 1.5, null, true, [2], []]])
"%s".format([{"b": {}, "a": "x", 1: true}])
"%s %s".format([b"abc", int])
"%.3s %.3d".format(["abcdef", 5])
bool("t")
bool("FALSE")
bool("yes")
bool(1)
dyn(1) == 1.0
""".strip().splitlines()  # fmt: skip


def own_value(text: str) -> Any:
    """Return our value, before it is converted to JSON."""
    try:
        program = compile_program(parse(text))
        return tagged(program.run(EvaluationFrame(VARIABLES, program.slots, Budget())))
    except (CelSyntaxError, CelError):
        return FAILED


def differences(texts: list[str]) -> list[tuple[str, Any, Any]]:
    """Return the text, CEL-C++'s value and our value of each expression that differs."""
    found = zip(texts, answers(texts, VARIABLES), strict=True)
    return [
        (text, answer, own)
        for text, answer in found
        if answer != ENDED
        and not _alike(answer, own := own_value(text))
        and not _is_known(text, answer, own)
    ]


def _is_known(text: str, answer: Any, own: Any) -> bool:
    """Return whether the values may differ: CEL-C++ writes doubles by %d, which CEL does not have,
    takes 1 and true for the same key of a map, and writes the keys of a map in any order."""
    if (
        "format(" in text
        and answer[0] == own[0] == "STRING"
        and sorted(answer[1]) == sorted(own[1])
    ):
        return True
    keys = {key for key, _ in own[1]} if own[0] == "map" else set()
    return (own == FAILED and "%d" in text) or bool(keys & {"True", "False"} and len(keys) > 1)


def _alike(answer: Any, own: Any) -> bool:
    """Compare lists in any order, because CEL-C++ reads the keys of a map in any order."""
    return bool(answer == own or _in_order(answer) == _in_order(own))


def _in_order(answer: Any) -> Any:
    if answer[0] == "list":
        return ["list", sorted(map(_in_order, answer[1]))]
    return answer


def test_known_differences_are_found() -> None:
    """JobFlow writes doubles with all digits, and reads only digits as a number."""
    assert [text for text, _, _ in differences(["string(1234567.5)", 'int(" 1")', "1 + 1"])] == [
        "string(1234567.5)",
        'int(" 1")',
    ]


def test_handwritten_expressions_have_equal_values() -> None:
    assert differences(HANDWRITTEN) == []


@pytest.mark.long
@pytest.mark.law
def test_random_expressions_have_equal_values() -> None:
    random = Random(11)
    texts = [sensible(random) for _ in range(40_000 // STRIDE)]
    assert differences(texts) == []
    values = [own for text in texts[:1_000] if (own := own_value(text)) != FAILED]
    assert len(values) > 0.6 * len(texts[:1_000])
