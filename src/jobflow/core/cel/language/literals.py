"""Texts and bytes as CEL writes them, with their escapes."""

from __future__ import annotations

import re

_ESCAPE = re.compile(
    r"\\(?:x([0-9a-fA-F]{2})|X([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|(.))",
    re.DOTALL,
)
_SHORT = dict(zip("abfnrtv\\?\"'`", "\a\b\f\n\r\t\v\\?\"'`", strict=True))


class NotTextError(ValueError):
    """It is not a text of CEL; the message is a clause that says why."""


def text_of(written: str) -> str | bytes:
    """Return the text, or the bytes, of a literal with its quotes."""
    if "\\" not in written and written[0] in "'\"" and written[1:2] != written[0]:
        return written[1:-1]  # the usual one
    quote = min(at for at in (written.find("'"), written.find('"')) if at >= 0)
    prefix, body = written[:quote].lower(), written[quote:]
    ends = 3 if len(body) >= 6 and body[:3] in ("'''", '"""') else 1
    body = body[ends:-ends]
    binary = "b" in prefix
    if "\\" in body and "r" not in prefix:
        return _bytes(body) if binary else _ESCAPE.sub(_character, body)
    return body.encode() if binary else body


def _character(found: re.Match[str]) -> str:
    short = found[6]
    if short is not None:
        if short not in _SHORT:
            raise NotTextError(f"unknown escape \\{short} in a text; write \\\\{short}")
        return _SHORT[short]
    code = int(found[5], 8) if found[5] else int(found[1] or found[2] or found[3] or found[4], 16)
    if 0xD800 <= code < 0xE000 or code > 0x10FFFF:
        raise NotTextError(f"{found[0]} is not a character")
    return chr(code)


def _bytes(body: str) -> bytes:
    """Here \\x and octal numbers are bytes, and \\u is not there."""
    made, behind = bytearray(), 0
    for found in _ESCAPE.finditer(body):
        if found[3] or found[4]:
            raise NotTextError(f"{found[0]} is not a byte")
        made += body[behind : found.start()].encode()
        character = _character(found)
        made += bytes([ord(character)])
        behind = found.end()
    return bytes(made + body[behind:].encode())
