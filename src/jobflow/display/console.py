"""The terminal or pipe that commands print to."""

import os
import re
from collections.abc import Iterable, Mapping, Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from jobflow.core.text import printable

GAP = "   "
MAX_WIDTH = 100
"""Columns of a paragraph on a wider terminal, because longer lines are hard to read."""
_COMMAND = re.compile("`[^`]+`")
_INDENT = "  "
_SPACE = "\ue000"
"""Stands for a space at which a line is not broken; of private use, so no text has it."""


def make_console(*, stderr: bool = False) -> Console:
    return Console(
        stderr=stderr,
        # with NO_COLOR, rich itself would still print bold and dim
        color_system=None if os.environ.get("NO_COLOR") else "auto",
        highlight=False,
        markup=False,  # names and messages may have brackets
        emoji=False,
    )


def columns_of(console: Console) -> int | None:
    """Return the width of the terminal; None elsewhere: in a pipe a line stays whole."""
    return console.width if console.is_terminal else None


def print_lines(console: Console, lines: Iterable[Text]) -> None:
    if console.is_terminal:  # at once, because rich locks and measures for each print
        console.print(Text("\n").join(lines), soft_wrap=True)
    else:  # plain text, because styles take time
        print("\n".join(line.plain for line in lines))


def print_sentences(sentences: Sequence[str], console: Console) -> None:
    """Print a line for each sentence. On a terminal it is wrapped, with further lines indented."""
    lines = [*map(printable, sentences)]
    if (columns := columns_of(console)) is not None:
        width = min(columns, MAX_WIDTH) - len(_INDENT)

        def join(found: re.Match[str]) -> str:
            # a command that fits into a line is not broken, so that it can be copied
            command = found.group()
            return command.replace(" ", _SPACE) if cell_len(command) < width else command

        wrapped = [Text(_COMMAND.sub(join, line)).wrap(console, width) for line in lines]
        lines = [
            (_INDENT if number else "") + row.plain.replace(_SPACE, " ").rstrip()
            for rows in wrapped
            for number, row in enumerate(rows)
        ]
    print_lines(console, map(Text, lines))


def column_sizes(names: Iterable[str], rows: Sequence[Mapping[str, str]]) -> dict[str, int]:
    """Return the size of each column: that of its heading or of its widest cell."""
    return {
        name: max(map(cell_len, (name, *(row.get(name, "") for row in rows)))) for name in names
    }


def fitting(sizes: Mapping[str, int], optional: Iterable[str], width: int | None) -> dict[str, int]:
    """Return the columns that fit into a width, with their sizes. The `optional` are left out in
    this order; None is no limit."""
    kept = dict(sizes)
    for name in optional:
        if width is not None and line_width(kept) > width:
            kept.pop(name, None)
    return kept


def line_width(sizes: Mapping[str, int]) -> int:
    return sum(sizes.values()) + len(GAP) * (len(sizes) - 1)


def offset_of(name: str, sizes: Mapping[str, int]) -> int:
    names = [*sizes]
    return sum(sizes[each] + len(GAP) for each in names[: names.index(name)])


def join_cells(cells: Mapping[str, str], sizes: Mapping[str, int]) -> str:
    """Return the line of a table."""
    padded = (cells[name] + " " * (size - cell_len(cells[name])) for name, size in sizes.items())
    return GAP.join(padded).rstrip()
