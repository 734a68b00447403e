"""Exit codes, and the errors and warnings that commands print. Scripts rely on the codes."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

SUCCESS = 0
"""The command did what it was asked for; `lint`: no faults; `run`: every flow is Succeed."""
FAILED = 1
"""Refused, or failed; `lint`: faults; `run`: a flow is Failed."""
UNUSABLE = 2
"""A wrong call, an unreadable file, no such object, no cluster, or a flow that cannot finish."""
TIMED_OUT = 124
"""`--timeout` is over; the code of timeout(1)."""
INTERRUPTED = 130
"""Ctrl-C."""


class CommandError(Exception):
    """An error that ends a command: the sentences to print, a line each, and the exit code."""

    def __init__(self, code: int, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code


class Errors:
    """Errors about single flows, which do not stop what is done to the others."""

    def __init__(self) -> None:
        self.code = SUCCESS
        """The worst exit code so far."""

    def add(self, error: CommandError) -> None:
        print_error(*str(error).splitlines())
        self.add_code(error.code)

    def add_code(self, code: int) -> None:
        # the codes rise with what is wrong
        self.code = max(self.code, code)


def unreachable(error: Exception) -> str:
    """Return the sentence for a cluster that does not answer."""
    from jobflow.kube.answers import describe_network_error  # takes long, and help needs none

    check = "check that the cluster runs and that the context is the right one"
    return f"the API server does not answer: {describe_network_error(error)}; {check}"


def print_error(*sentences: object, severity: str = "error") -> None:
    """Print `jobflow: SEVERITY: SENTENCE` to stderr, one line each."""
    for sentence in sentences:
        print(f"jobflow: {severity}: {sentence}", file=sys.stderr)


def discard_output() -> None:
    """Let Python's last flush at exit write to nowhere."""
    # closing stdout would fail too, because Python flushes it at exit
    sink = os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, sys.stdout.fileno())
    os.close(sink)


@contextmanager
def exit_on(code: int, *errors: type[Exception], file: object = "") -> Iterator[None]:
    """End the command with `code` after printing one of `errors`, whose lines are sentences. An
    OSError that names no file is about `file`."""
    try:
        yield
    except errors as error:
        # its own text has an errno, which tells users nothing
        if isinstance(error, OSError) and (name := error.filename or file):
            print_error(f"{name}: {error.strerror}")
        else:
            print_error(*str(error).splitlines())
        raise SystemExit(code) from None
