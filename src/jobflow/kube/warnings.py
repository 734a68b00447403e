"""What an API server says beside its answer: `Warning` headers. It judges nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable

_WARNING = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')
_ESCAPED = re.compile(r"\\(.)")


def warnings_of(headers: Iterable[str]) -> list[str]:
    """The texts of `Warning` headers, each of which may hold several (RFC 7234 5.5, of which an
    API server uses code 299 alone)."""
    return [
        _ESCAPED.sub(r"\1", found[1]) for header in headers for found in _WARNING.finditer(header)
    ]
