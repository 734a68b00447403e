"""Flows in a notebook: as HTML, and in a display of IPython that is updated while they run."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from html import escape
from io import StringIO
from typing import Any

from rich.console import Console
from rich.text import Text

from jobflow.api.flow.jobflow import JobFlow
from jobflow.client.step_rows import format_outputs, step_rows, with_reason
from jobflow.core.drawing.phase_looks import look_of
from jobflow.core.text import printable, shorten
from jobflow.display.flow_table import phase_of
from jobflow.display.live import LiveTrees
from jobflow.display.tree import cells_of, report_of, requested_hours

WIDTH = 120
_HEIGHT = 60
"""Lines of the trees that are shown while flows run."""
_MESSAGE = 160
"""Characters of outputs in a table."""
_PRE = (
    '<pre style="white-space:pre;overflow-x:auto;line-height:1.3;font-family:monospace">'
    "{code}</pre>"
)
Show = Callable[..., Any]
"""IPython's `display`."""


def notebook_display() -> NotebookTrees | None:
    """Return the display of flows below a cell, or None outside of notebooks. IPython is not
    imported: a notebook has done that."""
    get_shell = getattr(sys.modules.get("IPython"), "get_ipython", None)
    # a shell in a terminal has no kernel, and shows no HTML
    is_notebook = get_shell is not None and hasattr(get_shell(), "kernel")
    show = getattr(sys.modules.get("IPython.display"), "display", None) if is_notebook else None
    return None if show is None else NotebookTrees(show)


class NotebookTrees(LiveTrees):
    """The trees of flows in one display below the cell, where the last ones stay."""

    def __init__(self, show: Show) -> None:
        # only for its size: nothing is written to it
        console = Console(file=StringIO(), width=WIDTH, height=_HEIGHT, force_jupyter=False)
        super().__init__(console, put=self._put)
        self._shown: Sequence[Text] = ()
        self._handle = show({"text/plain": ""}, raw=True, display_id=True)

    def add(self, lines: Iterable[Text]) -> None:
        """Show lines below the trees."""
        self._put([*self._shown, *lines])

    def _put(self, lines: Sequence[Text]) -> None:
        self._shown = lines
        text = "\n".join(line.plain for line in lines)
        console = Console(file=StringIO(), record=True, width=10_000, force_jupyter=False)
        console.print(Text("\n").join(lines), soft_wrap=True)
        html = console.export_html(code_format=_PRE, inline_styles=True)
        self._handle.update({"text/html": html, "text/plain": text}, raw=True)


def table_html(flow: JobFlow) -> str:
    """Return the state of a flow, and a table of its steps."""
    now, state = datetime.now(UTC), flow.status.state
    outputs = shorten(format_outputs(flow.status.outputs or {}), _MESSAGE)
    why = with_reason(state.reason, state.message)
    told = "; ".join(filter(None, (why, outputs, requested_hours(flow))))
    head = f"<b>{_text(flow.metadata.name)}</b> {_phase(phase_of(flow))} {_text(told)}"
    rows = [{**cells_of(row, now), "MESSAGE": report_of(row, _MESSAGE)} for row in step_rows(flow)]
    names = [*rows[0]] if rows else []
    body = (
        _row("td", (_phase(row[name]) if name == "PHASE" else _text(row[name]) for name in names))
        for row in rows
    )
    return "\n".join((f"<div>{head}</div>", "<table>", _row("th", names), *body, "</table>"))


def _row(tag: str, cells: Iterable[str]) -> str:
    inner = "".join(f'<{tag} style="text-align:left">{cell}</{tag}>' for cell in cells)
    return f"<tr>{inner}</tr>"


def _phase(phase: str) -> str:
    line = look_of(phase).line
    style = f' style="color:{line.light}"' if line is not None else ""
    return f"<span{style}>{_text(phase)}</span>"


def _text(text: str) -> str:
    return escape(printable(text))
