"""The report on manifests: faults with place, sentence, source line and carets, and warnings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Protocol, TypeVar

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from jobflow.api.resources import SECRETS
from jobflow.client.errors import print_error
from jobflow.core.text import format_count, join_names, printable
from jobflow.core.violations import MAX_FINDINGS, MAX_SHOWN
from jobflow.display.console import columns_of, make_console

if TYPE_CHECKING:  # commands that show flows import nothing that checks manifests
    from jobflow.client.manifests.check import Report
    from jobflow.client.manifests.sources import ManifestFault, SourcePlace


class HasPlace(Protocol):
    @property
    def place(self) -> SourcePlace: ...


Placed = TypeVar("Placed", bound=HasPlace)

_BEFORE_CARET = 40
"""Columns of a long line to the left of the first caret."""
_GUTTER = 7


def print_report(report: Report, console: Console) -> None:
    """Print the faults and warnings, then one line of summary."""
    print_faults(report.faults, console)
    print_warnings(report, console)
    if not report.has_only_missing_files:  # "1 fault in 1 file" would say no more
        console.print(_summary(report), soft_wrap=True)


def print_faults(faults: Iterable[ManifestFault], console: Console) -> None:
    shown, others = first_of_each_file(faults, MAX_SHOWN)
    for fault in shown:
        print_fault(fault, console)
    for sentence in others:
        more = f"{sentence}; `jobflow lint -o json` prints {MAX_FINDINGS:,} of a file"
        console.print(more, soft_wrap=True)


def print_without_file(report: Report) -> None:
    """Print the warnings about flags, and the faults, of flows that are in no file."""
    for warning in report.flag_warnings:
        print_error(printable(warning.sentence), severity="warning")
    print_faults(report.faults, make_console(stderr=True))


def print_warnings(report: Report, console: Console) -> None:
    shown, others = first_of_each_file(report.warnings, MAX_SHOWN, "warning")
    for warning in shown:
        console.print(_head(warning.place, "warning", "yellow", warning.sentence), soft_wrap=True)
    for sentence in others:
        console.print(sentence, soft_wrap=True)


def first_of_each_file(
    findings: Iterable[Placed], most: int, noun: str = "fault"
) -> tuple[list[Placed], list[str]]:
    """Return the first findings of each file, and a sentence for each file with more of them."""
    counts: Counter[str] = Counter()
    shown: list[Placed] = []
    for each in findings:
        # counted for each file, because one bad file should not hide the others
        counts[each.place.source.name] += 1
        if counts[each.place.source.name] <= most:
            shown.append(each)
    return shown, [
        f"{printable(name)}: {format_count(count - most, f'more {noun}')}"
        for name, count in counts.items()
        if count > most
    ]


def print_fault(fault: ManifestFault, console: Console) -> None:
    """Print `file:line:column: error: path: message`, then the source line and its carets."""
    text = _head(fault.place, "error", "red", fault.sentence)
    # a line of a Secret may have its value, which logs of CI must not show
    is_secret = fault.kind == SECRETS.kind
    for line in () if is_secret else excerpt(fault.place, columns_of(console) or 120):
        text.append(f"\n{line}", style="dim")
    # a terminal wraps by itself, and in a pipe a line has to stay one line
    console.print(text, soft_wrap=True)


def print_finding(place: SourcePlace, severity: str, sentence: str, console: Console) -> None:
    """Print `file:line:column: severity: sentence`."""
    colour = {"error": "red", "warning": "yellow"}.get(severity, "cyan")
    console.print(_head(place, severity, colour, sentence), soft_wrap=True)


def _head(place: SourcePlace, severity: str, colour: str, sentence: str) -> Text:
    return Text.assemble(
        (f"{printable(str(place))}: ", "bold"),
        (f"{severity}: ", f"bold {colour}"),
        printable(sentence),
    )


def excerpt(place: SourcePlace, width: int) -> Iterator[str]:
    """Return the source line, cut to `width` around the place, and the carets below it."""
    if not place.line:
        return
    whole = place.source.lines[place.line - 1]
    start = min(place.column - 1, len(whole))  # what is missing is behind the line
    columns = max(width - _GUTTER - 2, 20)
    is_long = len(whole) > columns or cell_len(printable(whole)) > columns
    cut = max(start - min(_BEFORE_CARET, columns // 2), 0) if is_long else 0
    # cut first: a file of one line has a thousand faults and a megabyte
    line = printable(whole[cut : cut + columns + 1])
    if cut:
        line, start = "…" + line, start - cut + 1
    if cell_len(line) > columns or cut + columns + 1 < len(whole):
        line = set_cell_size(line, min(columns - 1, cell_len(line))).rstrip() + "…"
    indent = " " * cell_len(line[:start])
    carets = "^" * max(1, cell_len(line[start : start + place.width]))
    yield f"{place.line:>{_GUTTER - 2}} | {line}".rstrip()
    yield f"{'':>{_GUTTER - 2}} | {indent}{carets}"


def _summary(report: Report) -> str:
    flows, templates = len(report.flows), len(report.templates)
    if report.faults:
        files = len({fault.place.source.name for fault in report.faults})
        text = f"{format_count(len(report.faults), 'fault')} in {format_count(files, 'file')}"
    else:
        counts = [format_count(flows, "JobFlow"), format_count(templates, "JobTemplate")]
        if report.crons:
            counts.append(format_count(len(report.crons), "CronJobFlow"))
        text = f"{join_names(counts)}: no faults"
    if report.warnings:
        text += f", {format_count(len(report.warnings), 'warning')}"
    if report.others:
        kinds = sorted({str(manifest.kind) for manifest in report.others})
        names = ", ".join(kinds[:3]) + (", …" if len(kinds) > 3 else "")
        text += f"; ignored {format_count(len(report.others), 'object')} of other kinds ({names})"
    return text
