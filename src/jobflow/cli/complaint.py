"""Says on standard error why a command could not do its work."""

from __future__ import annotations

import sys


def complain(command: str, *sentences: str) -> None:
    """`jobflow COMMAND: sentence`, one line each."""
    for sentence in sentences:
        print(f"jobflow {command}: {sentence}", file=sys.stderr)
