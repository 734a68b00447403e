"""Faults and warnings on a terminal: source lines with carets, colours and escapes."""

from dataclasses import replace

import pytest
from rich.console import Console

from jobflow.client.manifests.check import Report
from jobflow.client.manifests.sources import ManifestFault, Source, SourcePlace
from jobflow.display.report import excerpt, print_fault, print_report

PLACE = SourcePlace(Source("f.yaml", "a: b"), 1, 4)
FAULT = ManifestFault(PLACE, "FieldValueInvalid", "m", "spec.a")


def lines(text: str, column: int, width: int = 1) -> list[str]:
    return list(excerpt(SourcePlace(Source("f", text), 1, column, width), 80))


@pytest.mark.parametrize(
    ("text", "column", "width", "line", "carets"),
    [
        ("name: A", 7, 1, "name: A", "      ^"),
        ("a:\tb", 4, 1, "a: b", "   ^"),
        ("a: 名字 x", 4, 2, "a: 名字 x", "   ^^^^"),
        ("a: \x1b[31m", 4, 1, "a: \ufffd[31m", "   ^"),
        ("ab", 9, 1, "ab", "  ^"),
    ],
    ids=["plain", "tab", "wide characters", "escape sequence", "after the end of the line"],
)
def test_carets_are_below_the_place(
    text: str, column: int, width: int, line: str, carets: str
) -> None:
    assert lines(text, column, width) == [f"    1 | {line}", f"      | {carets}"]


def test_a_long_line_is_shortened_around_the_place() -> None:
    text = "x" * 1_000_000 + "HERE" + "y" * 1_000_000
    line, carets = lines(text, 1_000_001, 4)
    assert len(line) <= 80
    assert line[carets.index("^") :].startswith("HERE")
    assert carets.strip(" |") == "^^^^"
    assert "…" in line[:10] and line.endswith("…")


def test_a_long_line_is_shortened_after_the_place() -> None:
    line, carets = lines("name: " + "x" * 200, 1, 4)
    assert line.startswith("    1 | name: xx") and line.endswith("…")
    assert carets == "      | ^^^^"


def test_a_whole_file_has_no_excerpt() -> None:
    assert list(excerpt(SourcePlace(Source("f")), 80)) == []


def printed(console: Console) -> str:
    with console.capture() as captured:
        print_fault(FAULT, console)
    return captured.get()


def test_only_terminals_get_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = printed(Console(force_terminal=False, width=80))
    assert plain == "f.yaml:1:4: error: spec.a: m\n    1 | a: b\n      |    ^\n"
    monkeypatch.delenv("NO_COLOR", raising=False)
    coloured = Console(force_terminal=True, width=80, color_system="standard")
    assert "\x1b[1;31merror: \x1b[0m" in printed(coloured)
    monkeypatch.setenv("NO_COLOR", "1")
    without = printed(Console(force_terminal=True, width=80, color_system="standard"))
    assert "\x1b[31m" not in without and ";31m" not in without


def test_a_file_with_many_faults_shows_a_hundred_and_counts_the_others() -> None:
    console = Console(force_terminal=False, width=80)
    other = replace(FAULT, place=SourcePlace(Source("g.yaml", "a: b"), 1, 4))
    with console.capture() as captured:
        print_report(Report(faults=[*[FAULT] * 30_000, other], warnings=[FAULT] * 101), console)
    printed = captured.get().splitlines()
    assert sum(line.startswith("f.yaml:1:4: error:") for line in printed) == 100
    assert sum(line.startswith("g.yaml:1:4: error:") for line in printed) == 1
    assert "f.yaml: 29,900 more faults; `jobflow lint -o json` prints 1,000 of a file" in printed
    assert printed[-2:] == ["f.yaml: 1 more warning", "30,001 faults in 2 files, 101 warnings"]


def test_markup_in_messages_is_text() -> None:
    console = Console(force_terminal=False, width=80)
    fault = ManifestFault(PLACE, "r", "[bold]x[/bold]", "spec.flows[0]")
    warning = ManifestFault(PLACE, "", "[red]w")
    with console.capture() as captured:
        print_report(Report(faults=[fault], warnings=[warning]), console)
    first, *_, second, summary = captured.get().splitlines()
    assert first == "f.yaml:1:4: error: spec.flows[0]: [bold]x[/bold]"
    assert second == "f.yaml:1:4: warning: [red]w"
    assert summary == "1 fault in 1 file, 1 warning"
