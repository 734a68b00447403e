"""Exit codes of the command line. Scripts rely on them (DESIGN §7)."""

from __future__ import annotations

import sys

FINE = 0
"""lint: nothing is wrong. run: every flow is Succeed."""
FAULTY = 1
"""lint: something is wrong. run: a flow Failed."""
UNUSABLE = 2
"""lint: something is unreadable. run: refused, unreadable, or waiting for what never comes. Any
command: called wrongly, or something that it needs is missing."""
INTERRUPTED = 130
"""Ctrl-C."""


def complain(command: str, *sentences: str) -> None:
    """`jobflow COMMAND: sentence`, one line each."""
    for sentence in sentences:
        print(f"jobflow {command}: {sentence}", file=sys.stderr)
