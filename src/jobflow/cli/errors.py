"""Exit codes, and the errors and warnings that commands print. Scripts rely on the codes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

SUCCESS = 0
"""The command did what it was asked for; `lint`: no faults; `run`: every flow is Succeed."""
FAILED = 1
"""Refused, or failed; `lint`: faults; `run`: a flow is Failed."""
UNUSABLE = 2
"""A wrong call, an unreadable file, no such object, no cluster, or a flow that cannot finish."""
INTERRUPTED = 130
"""Ctrl-C."""


class CommandError(Exception):
    """An error that ends a command: the sentences to print, a line each, and the exit code."""

    def __init__(self, code: int, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code


def unreachable(error: Exception) -> str:
    """Return the sentence for a cluster that does not answer."""
    return f"the API server does not answer: {str(error) or type(error).__name__}"


def print_error(*sentences: object, severity: str = "error") -> None:
    """Print `jobflow: SEVERITY: SENTENCE` to stderr, one line each."""
    for sentence in sentences:
        print(f"jobflow: {severity}: {sentence}", file=sys.stderr)


@contextmanager
def exit_on(code: int, *errors: type[Exception], file: object = "") -> Iterator[None]:
    """End the command with `code` after printing one of `errors`, whose lines are sentences. An
    OSError that names no file is about `file`."""
    try:
        yield
    except errors as error:
        if isinstance(error, OSError) and (name := error.filename or file):
            print_error(f"{name}: {error.strerror}")
        else:
            print_error(*str(error).splitlines())
        raise SystemExit(code) from None
