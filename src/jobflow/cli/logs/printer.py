"""How lines of logs are printed: they are untrusted, so a line cannot move the cursor or change
colours."""

import sys
from collections.abc import Iterable, Iterator, Sequence

from rich.cells import cell_len, chop_cells
from rich.text import Text

from jobflow.client.errors import UNUSABLE, CommandError, discard_output
from jobflow.client.logs.stream import LogSink, clean
from jobflow.display.console import make_console

_COLOURS = ("cyan", "green", "yellow", "magenta", "blue", "bright_cyan", "bright_magenta")
_ROOM = 20
"""Columns that a terminal should have for the text; a longer prefix is cut."""


class OutputClosed(Exception):
    """Nobody reads standard output any more, as after `| head`."""


class LogPrinter(LogSink):
    """Prints lines with a prefix, on a terminal in the colour of the step and on each row."""

    def __init__(self, steps: Sequence[str]) -> None:
        self._console = make_console()
        self._guide = "|" if self._console.options.ascii_only else "│"
        self._styles: dict[str, str] = {}
        for step in steps:  # so that a step has its colour whatever log comes first
            self._style_of(step)

    def _style_of(self, step: str) -> str:
        return self._styles.setdefault(step, _COLOURS[len(self._styles) % len(_COLOURS)])

    def print(self, step: str, name: str, lines: Iterable[bytes]) -> None:
        """Print lines of a container. Raises OutputClosed, CommandError."""
        texts = (clean(line) for line in lines)
        try:
            if not self._console.is_terminal:
                text = "".join(f"{name} {self._guide} {text}\n" for text in texts)
                encoding = sys.stdout.encoding or "utf-8"
                # a log may have what the output cannot show; that is no reason to stop
                if encoding.lower() not in ("utf-8", "utf8"):
                    text = text.encode(encoding, "replace").decode(encoding)
                sys.stdout.write(text)
                sys.stdout.flush()
                return
            width = self._console.width
            prefix = _shorten(name, max(width - _ROOM - 3, width // 2 - 3, 1))
            head = Text.assemble((f"{prefix} {self._guide} ", self._style_of(step)))
            room = max(width - cell_len(head.plain), 1)
            # rows of our own, because the terminal would continue a line without the prefix
            for row in (row for text in texts for row in rows(text, room)):
                self._console.print(head + Text(row), soft_wrap=True)
        except OSError as error:
            discard_output()
            if isinstance(error, BrokenPipeError):
                raise OutputClosed from None
            why = f"cannot write to standard output: {error.strerror}"
            raise CommandError(UNUSABLE, why) from None


def rows(text: str, width: int) -> Iterator[str]:
    """Yield a line in rows of at most `width` columns, at least one."""
    yield from chop_cells(text.expandtabs(8), width) or [""]


def _shorten(name: str, width: int) -> str:
    """Return `train/…-main-0` for a longer `train/flow-train-main-0`."""
    if cell_len(name) <= width:
        return name
    step, _, rest = name.partition("/")
    # pods of a flow differ at the end
    head = f"{step}/…" if cell_len(step) + 8 < width else "…"
    return head + rest[-max(width - cell_len(head), 1) :]
