"""Random expressions of CEL: sensible ones, and very expensive ones."""

import re
from collections.abc import Callable
from random import Random
from typing import Any

VARIABLES: dict[str, Any] = {
    "x": 3,
    "y": -7,
    "d": 2.5,
    "s": "text",
    "e": "",
    "b": True,
    "l": [3, 1, 2],
    "t": ["a", "text", "b"],
    "m": {"k": 1, "text": {"z": [1, 2.0]}},
    "r": [{"p": "a", "q": 1}, {"p": "b", "q": 2.5}, {"p": "a"}],
}
"""The variables of sensible expressions."""

_LEAVES = {
    "int": ["0", "1", "-1", "7", "x", "y", "9223372036854775807", "size(l)", "m.k", "l[0]"],
    "double": ["0.0", "1.5", "-2.0", "d", "1e3", "double(x)", "r[1].q"],
    "text": ["''", '"a"', "'text'", "s", "e", "r[0].p", "t[1]", "string(x)", "'\\u00e9'"],
    "bool": ["true", "false", "b", "has(m.k)", "has(m.other)", "x in l", "s in m"],
    "list": ["[]", "l", "[1, 2]", "[1.5, 'a', true]", "m.text.z"],
    "texts": ["t", "['a', 'b']", "r.map(i, i.p)", "[s, e]"],
    "maps": ["r", "[{'p': 'a'}]", "[m, m]"],
    "map": ["m", "{}", "{'k': x}", "{1: 2}", "{true: s, 'a': l}", "m.text", "r[0]"],
    "time": ["timestamp('2026-01-01T00:00:00Z')", "timestamp('2026-02-03T04:05:06.789+02:00')"],
    "duration": ["duration('90s')", "duration('-1h30m')", "duration('1500ms')"],
}
_INNER = {
    "int": [
        "($int + $int)", "($int - $int)", "($int * $int)", "($int / $int)",
        "($int % $int)", "-($int)", "size($list)", "size($text)", "$list.size()",
        "int($double)", "int('12')", "($bool ? $int : $int)", "$list[$int]",
        "$time.getDayOfYear()", "$duration.getMinutes()", "$duration.getMilliseconds()",
        "int($time)", "$time.getDayOfWeek()", "size($map)",
    ],
    "double": [
        "($double + $double)", "($double - $double)", "($double * $double)",
        "($double / $double)", "-($double)", "double($int)", "($bool ? $double : $double)",
    ],
    "text": [
        "($text + $text)", "string($int)", "string($bool)", "($bool ? $text : $text)",
        "$texts[$int]", "string($duration)", "string($time)", "string(bytes($text))",
        "$texts.join($text)", "$texts.join()", "$text.replace($text, $text)",
        "$text.replace($text, $text, $int)", "$text.lowerAscii()", "$text.upperAscii()",
        "(' \\t' + $text + '\\u00a0').trim()", "'%s-%d'.format([$text, $int])",
        "'%x %b %o'.format([$int, $bool, $int])", "'%.2f%%|%.0e'.format([$double, $double])",
        "'%s'.format([$texts])", "'%s'.format([$duration])",
    ],
    "bool": [
        "($int < $int)", "($int >= $double)", "($any == $any)", "($any != $any)",
        "($text < $text)", "($bool && $bool)", "($bool || $bool)", "!($bool)",
        "$text.startsWith($text)", "$text.endsWith($text)", "$text.contains($text)",
        "$text.matches('^[a-t]+$')", "matches($text, 'e.t|^$')", "($any in $list)",
        "($text in $map)", "$list.all(i, i != $int)", "$list.exists(i, i == $any)",
        "$texts.exists_one(i, i == $text)", "$maps.exists(i, has(i.q) && i.q > $int)",
        "$map.all(k, k != $text)", "($time < $time)", "($duration <= $duration)",
        "(type($any) == type($any))", "(type($any) == int)", "($bool ? $bool : $bool)",
        "($int / $int == 1 || $bool)", "($int == $int == $bool)", "has($map.k)", "bool($bool)",
        "bool($text)", "bool(string($bool))",
    ],
    "list": [
        "($list + $list)", "[$any, $any]", "$list.map(i, [i])", "$list.filter(i, $bool)",
        "$list.filter(i, i == $any)", "$list.map(i, $list.map(j, [i, j]))", "$texts",
        "$list.map(i, $bool, i)", "($bool ? $list : $list)", "$map.map(k, 1)", "$maps",
    ],
    "texts": [
        "($texts + $texts)", "[$text, $text]", "$texts.filter(i, i != $text)",
        "$text.split($text)", "$text.split($text, $int)",
    ],
    "maps": ["$maps.filter(i, has(i.p))", "($maps + $maps)", "[$map]"],
    "map": ["{'k': $any, 'j': $any}", "{$int: $any, $text: $any}", "$maps[$int]"],
    "time": ["($time + $duration)", "($time - $duration)", "timestamp($int)"],
    "duration": ["($duration + $duration)", "($time - $time)", "duration(string($duration))"],
}  # fmt: skip


def sensible(random: Random, kind: str = "any", depth: int = 3) -> str:
    """Return an expression over VARIABLES, mostly with the types that its operators take."""
    if kind == "any" or random.random() < 0.03:
        kind = random.choice(sorted(_LEAVES))
    if not depth or random.random() < 0.2:
        return random.choice(_LEAVES[kind])
    return _filled(random.choice(_INNER[kind]), lambda each: sensible(random, each, depth - 1))


def _filled(template: str, part: Callable[[str], str]) -> str:
    """Return the template with a part for each `$kind` in it."""
    return re.sub(r"\$(\w+)", lambda found: part(found[1]), template)


_DEEP: Any = 1
for _ in range(98):
    _DEEP = [_DEEP]

HUGE: dict[str, Any] = {
    "n": list(range(12_000)),
    "s": "x" * 65_000,
    "u": "\u00e9" * 32_000,
    "w": ["ab" * 30 + str(number) for number in range(900)],
    "o": [{"phase": "Completed", "outputs": {"acc": n / 7, "name": "x" * 20}} for n in range(1000)],
    "m": {f"key-{number:05}": number for number in range(4000)},
    "g": [[number, [number]] for number in range(3000)],
    "q": _DEEP,
    "i": list(range(1000)),
}
"""Values at their limits: 64 KiB of params, 1,000 items."""

_PATTERNS = [
    r"(x|y){80}z", r"(?:a?){40}(?:a){40}", r"\\pL+\\pN", r"[a-q][^u-z]{13}x", r"(x+x+)+y",
    r"(.*)(.*)(.*)y", r"(?i)\\bx*?y$", r"(?:[ab]*a[ab]{30})c", r"(a|\\pL)*$", r"x{90}.*y",
    r"(\\b|x){60}z",
]  # fmt: skip
_HUGE = {
    "any": ["$list", "$text", "$number", "$test", "$map", "q"],
    "list": [
        "n", "i", "w", "o", "g", "($list + $list)", "$list.map(v, $any)", "$list.map(v, v)",
        "$list.filter(v, $test)", "[$any, $any, $any]", "$map.map(v, v)",
        "$list.map(v, [v, v])", "$list.map(v, $list)", "$list.map(v, {v: $any})",
        "($test ? $list : $list)", "$list.map(v, string(v) + $text)", "[i, n].map(v, v + v)",
        "$list.map(v, {'a': $any, 'b': v})", "$list.map(v, [v, v, v, v, v, v, v, v, v, v])",
        "$list.map(v, v + v)", "$list.flatten()", "$list.map(v, [v, v]).flatten()",
        "$list.map(v, $list).flatten(9)", "$list.distinct()", "product($list, $list)",
        "product(product(i, [1, 2]), product([1], $list)).distinct()", "range(100000)",
        "range($number)", "$list.sort()", "$list.map(v, $text).sort()", "$text.split('')",
        "$text.split($text)", "json($text)", "json('[' + $list.map(v, '{}').join(',') + ']')",
        "$list.map(v, [v, {'k': v}, 1.5]).distinct()", "$list.map(v, $text).distinct()",
    ],
    "text": [
        "s", "u", "($text + $text)", "string(bytes($text))", "string($number)",
        "($test ? $text : $text)", "w[7]", "$list.map(v, $text).join($text)", "w.join()",
        "$text.replace('', $text)", "$text.replace($text, $text)", "$text.replace('x', $text)",
        "$text.upperAscii()", "$text.trim()", "(' ' + $text).replace('x', ' ').trim()",
        "'%s %s'.format([$any, $any])", "'%.999f'.format([$number])", "'%x'.format([$text])",
        "($text + '%s').replace('x', '%s').format($list)", "get($map, $text, $text)",
    ],
    "number": [
        "size($list)", "size($text)", "$list.sum()", "$list.max()", "1", "size($map)", "7 * 8",
        "o.maxBy('outputs.acc').outputs.acc", "o.minBy('outputs.name').phase", "n[9]",
        "int(string($number))", "$list[$any]", "$map[$any]", "$any[$number]",
        "[$text, $text].map(v, {'k': v + v}).maxBy('k').k",
    ],
    "test": [
        "($any == $any)", "($any in $list)", "($text in $map)", "$list.all(v, $test)",
        "$list.exists(v, !($test))", "$list.exists_one(v, $test)", "($number < $number)",
        "$text.matches('$pattern')", "$text.contains($text)", "$text.startsWith($text)",
        "($text < $text)", "($test && $test)", "($test || $test)", "!($test)",
        "(1 / 0 == 1 || $test)", "$list.all(v, v == v)", "$list.exists(v, v.a.b == 1)",
        "$list.all(v, 1 / 0 == v)", "$map.all(v, v != $text)", "(q == q)",
        "$list.exists(v, [1][$any] == v)", "$list.exists(v, $map[$text] == v)",
        "$list.exists(v, {$any: 1, $any: 2} == {})", "$list.exists(v, $map == $map)",
    ],
    "map": [
        "m", "{'a': $any, 'b': $any}", "{1: $any}", "o[0]", "{$text: $any}", "{$any: 1, $any: 2}",
    ],
}  # fmt: skip
_STEPS = [
    ".map(v, v)", ".map(v, [v, v])", ".filter(v, v == v)", "[0]", ".a", ".map(v, v + v)",
    ".map(v, [v, v, v, v, v, v, v, v, v, v])",
]  # fmt: skip
_SMALL = {"list": "i", "text": "s", "number": "1", "test": "true", "map": "m", "any": "n"}


def hostile(random: Random, limit: int = 1024) -> str:
    """Return an expensive expression over HUGE with at most `limit` characters."""
    kind = random.choice(["any", "list", "test", "number"])
    text = _expensive(random, kind, random.randint(2, 7))
    chain = random.random()
    if chain < 0.15:
        sign = random.choice([" + ", " && ", " || ", " == ", "-", " in ", " * "])
        text = sign.join([text] * max(1, (limit - 8) // (len(text) + len(sign))))
    elif chain < 0.3:
        step = random.choice(_STEPS)
        text += step * ((limit - len(text)) // len(step))
    elif chain < 0.4:
        text = f"[1][[1]{_STEPS[-1] * random.randint(1, 20)}] == {text}"
    elif chain < 0.45:
        text = random.choice(["!", "-"]) * (limit - len(text)) + text
    elif chain < 0.48:
        text = f"{text} ? 1 : " * ((limit - 1) // (len(text) + 7)) + "2"
    return text if len(text) <= limit else _expensive(random, kind, 2)


def _expensive(random: Random, kind: str, depth: int) -> str:
    if kind == "pattern":
        return random.choice(_PATTERNS)
    if not depth:
        return _SMALL[kind]
    template = random.choice(_HUGE[kind])
    return _filled(template, lambda each: _expensive(random, each, depth - 1))
