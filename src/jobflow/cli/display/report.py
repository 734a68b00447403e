"""Shows faults and warnings to people: the place, the sentence, the source line with a caret."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from jobflow.cli.manifests.check import Report
from jobflow.cli.manifests.faults import Fault, Place

_BEFORE_CARET = 40
"""How much of a long line stays to the left of what the caret points at."""
_GUTTER = 7


def show(report: Report, console: Console) -> None:
    """Every fault and warning of a report, then one line that sums up."""
    for fault in report.faults:
        print_fault(fault, console)
    print_warnings(report, console)
    console.print(summary(report), soft_wrap=True)


def print_warnings(report: Report, console: Console) -> None:
    """`file:line:column: warning: …` for each."""
    for warned in report.warnings:
        console.print(_head(warned.place, "warning", "yellow", warned.message), soft_wrap=True)


def print_fault(fault: Fault, console: Console) -> None:
    """`file:line:column: error: path: message`, then the line itself and a caret under the place.

    Lines are not wrapped: on a terminal it does that itself, elsewhere a line stays one line.
    """
    text = _head(fault.place, "error", "red", fault.sentence)
    for line in excerpt(fault.place, console.width if console.is_terminal else 120):
        text.append(f"\n{line}", style="dim")
    console.print(text, soft_wrap=True)


def _head(place: Place, word: str, colour: str, sentence: str) -> Text:
    return Text.assemble(
        (f"{visible(str(place))}: ", "bold"), (f"{word}: ", f"bold {colour}"), visible(sentence)
    )


def excerpt(place: Place, width: int) -> Iterator[str]:
    """The source line and, below it, carets under the place; of a long line the part around it."""
    if not place.line:
        return
    line = visible(place.text)
    start = min(place.column - 1, len(line))
    room = max(width - _GUTTER - 2, 20)
    if cell_len(line) > room:
        cut = max(start - min(_BEFORE_CARET, room // 2), 0)
        line, start = ("…" if cut else "") + line[cut:], start - cut + (1 if cut else 0)
        if cell_len(line) > room:
            line = set_cell_size(line, room - 1).rstrip() + "…"
    under = cell_len(line[:start])
    carets = max(1, cell_len(line[start : start + place.width]))
    yield f"{place.line:>{_GUTTER - 2}} | {line}".rstrip()
    yield f"{'':>{_GUTTER - 2}} | {' ' * under}{'^' * carets}"


def visible(text: str) -> str:
    """Text that cannot move the cursor or change colours: one cell for what has no glyph."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else " " if char.isspace() else "\ufffd" for char in text
    )


def summary(report: Report) -> str:
    """What was looked at and how it stands, in one line."""
    if report.faults:
        files = len({fault.place.source.name for fault in report.faults})
        said = f"{_count(len(report.faults), 'fault')} in {_count(files, 'file')}"
    else:
        flows, templates = len(report.flows), len(report.templates)
        said = f"{_count(flows, 'JobFlow')} and {_count(templates, 'JobTemplate')}: no faults"
    if report.warnings:
        said += f", {_count(len(report.warnings), 'warning')}"
    if report.others:
        kinds = sorted({str(manifest.kind) for manifest in report.others})
        shown = ", ".join(islice(kinds, 3)) + (", …" if len(kinds) > 3 else "")
        said += f"; passed over {_count(len(report.others), 'object')} of other kinds ({shown})"
    return said


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
