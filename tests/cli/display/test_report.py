"""Source lines with carets: long lines, tabs, wide characters, and nothing that moves a cursor."""

from __future__ import annotations

import pytest
from rich.console import Console

from jobflow.cli.display.report import excerpt, print_fault, show
from jobflow.cli.manifests.check import Report, Warned
from jobflow.cli.manifests.faults import Fault, Place, Source


def lines(text: str, column: int, width: int = 1, *, terminal: int = 80) -> list[str]:
    return list(excerpt(Place(Source("f", [text]), 1, column, width), terminal))


def test_a_caret_stands_under_the_place() -> None:
    assert lines("name: A", 7) == ["    1 | name: A", "      |       ^"]


def test_a_tab_takes_one_cell() -> None:
    assert lines("a:\tb", 4) == ["    1 | a: b", "      |    ^"]


def test_wide_characters_take_two_cells() -> None:
    assert lines("a: 名字 x", 4, 2) == ["    1 | a: 名字 x", "      |    ^^^^"]


def test_escape_sequences_are_shown_and_not_sent() -> None:
    assert lines("a: \x1b[31m", 4) == ["    1 | a: \ufffd[31m", "      |    ^"]


def test_of_a_long_line_the_part_around_the_place() -> None:
    text = "x" * 1_000_000 + "HERE" + "y" * 1_000_000
    line, carets = lines(text, 1_000_001, 4)
    assert len(line) <= 80
    assert line[carets.index("^") :].startswith("HERE")
    assert carets.strip(" |") == "^^^^"
    assert "…" in line[:10] and line.endswith("…")


def test_a_long_line_with_the_place_in_front() -> None:
    line, carets = lines("name: " + "x" * 200, 1, 4)
    assert line.startswith("    1 | name: xx") and line.endswith("…")
    assert carets == "      | ^^^^"


def test_a_place_behind_the_end_of_the_line() -> None:
    assert lines("ab", 9) == ["    1 | ab", "      |   ^"]


def test_a_whole_file_has_no_line() -> None:
    assert list(excerpt(Place(Source("f")), 80)) == []


@pytest.fixture
def fault() -> Fault:
    return Fault(Place(Source("f.yaml", ["a: b"]), 1, 4), "FieldValueInvalid", "m", "spec.a")


def test_colours_only_on_terminals(fault: Fault) -> None:
    plain = Console(force_terminal=False, width=80)
    with plain.capture() as captured:
        print_fault(fault, plain)
    assert captured.get() == "f.yaml:1:4: error: spec.a: m\n    1 | a: b\n      |    ^\n"
    coloured = Console(force_terminal=True, width=80, color_system="standard")
    with coloured.capture() as captured:
        print_fault(fault, coloured)
    assert "\x1b[1;31merror: \x1b[0m" in captured.get()


def test_no_color_is_respected(fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    console = Console(force_terminal=True, width=80, color_system="standard")
    with console.capture() as captured:
        print_fault(fault, console)
    assert "\x1b[31m" not in captured.get() and ";31m" not in captured.get()


def test_markup_in_messages_is_text(fault: Fault) -> None:
    console = Console(force_terminal=False, width=80)
    marked = Fault(fault.place, "r", "[bold]x[/bold]", "spec.flows[0]")
    with console.capture() as captured:
        show(Report(faults=[marked], warnings=[Warned(fault.place, "[red]w")]), console)
    assert captured.get().splitlines()[0] == "f.yaml:1:4: error: spec.flows[0]: [bold]x[/bold]"
    assert "f.yaml:1:4: warning: [red]w" in captured.get()
    assert captured.get().splitlines()[-1] == "1 fault in 1 file, 1 warning"
