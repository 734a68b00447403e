"""The terminal or pipe that commands print to."""

from __future__ import annotations

import os
from collections.abc import Iterable

from rich.console import Console
from rich.text import Text


def make_console(*, stderr: bool = False) -> Console:
    """Return a console that styles texts on a terminal, unless NO_COLOR is set. Rich itself would
    then still print bold and dim."""
    return Console(
        stderr=stderr,
        color_system=None if os.environ.get("NO_COLOR") else "auto",
        highlight=False,
        markup=False,
        emoji=False,
    )


def columns_of(console: Console) -> int | None:
    """Return the width of the terminal; None elsewhere, because in a pipe a line stays whole."""
    return console.width if console.is_terminal else None


def print_lines(console: Console, lines: Iterable[Text]) -> None:
    """Print lines at once; without a terminal as plain text, because styles take time."""
    if console.is_terminal:
        console.print(Text("\n").join(lines), soft_wrap=True)
    else:
        print("\n".join(line.plain for line in lines))
