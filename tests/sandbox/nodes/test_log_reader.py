"""Logs of processes, read as `kubectl logs` reads them."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from jobflow.sandbox.nodes.logs import BLOCK, LOG_LIMIT, ContainerLog
from jobflow.sandbox.nodes.supervisor import Log

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
Write = Callable[..., ContainerLog]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Return a function that writes chunks, one a second from noon, as a supervisor does."""
    path = tmp_path / "c.log"
    seconds = iter(range(10**6))

    def clock() -> int:
        return int((NOON + timedelta(seconds=next(seconds))).timestamp()) * 10**9

    monkeypatch.setattr("jobflow.sandbox.nodes.supervisor.time.time_ns", clock)
    made: dict[int, Log] = {}

    def write_chunks(*chunks: str, limit: int = LOG_LIMIT) -> ContainerLog:
        log = made.get(limit) or made.setdefault(limit, Log(str(path), limit))
        for chunk in chunks:
            log.write(chunk.encode())
        return ContainerLog(path)

    return write_chunks


def read(log: ContainerLog, **options: Any) -> str:
    return b"".join(_blocks(log, **options)).decode()


def _blocks(log: ContainerLog, **options: Any) -> Iterator[bytes]:
    wanted = {"tail": None, "since": None, "timestamps": False, "follow": False} | options
    return log.read(**wanted)


@pytest.mark.parametrize(
    ("tail", "text"),
    [
        (0, ""),
        (1, "d"),
        (2, "c\nd"),
        (4, "a\nb\nc\nd"),
        (9, "a\nb\nc\nd"),
        (None, "a\nb\nc\nd"),
    ],
)
def test_the_last_lines_are_read(write: Write, tail: int | None, text: str) -> None:
    assert read(write("a\nb", "\nc\n", "d"), tail=tail) == text


def test_a_line_break_at_the_end_ends_the_last_line(write: Write) -> None:
    assert read(write("a\n\nb\n\n"), tail=2) == "b\n\n"


def test_the_last_lines_may_be_longer_than_a_block(write: Write) -> None:
    long = "x" * (2 * BLOCK) + "\n"
    assert read(write("a\n", long, "b\n"), tail=2) == long + "b\n"


def test_each_line_has_the_time_when_it_began(write: Write) -> None:
    log = write("a\nb", "c\nd\n", "\n", "e")
    assert read(log, timestamps=True).splitlines() == [
        "2026-01-01T12:00:00.000000000Z a",
        "2026-01-01T12:00:00.000000000Z bc",
        "2026-01-01T12:00:01.000000000Z d",
        "2026-01-01T12:00:02.000000000Z ",
        "2026-01-01T12:00:03.000000000Z e",
    ]


def test_a_line_of_several_blocks_has_one_time(write: Write) -> None:
    text = read(write("x" * (2 * BLOCK) + "\ny\n"), timestamps=True)
    assert [len(line) for line in text.splitlines()] == [31 + 2 * BLOCK, 32]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-5, "a\nbc\nd\ne\n"), (0, "a\nbc\nd\ne\n"), (0.5, "d\ne\n"), (2, "e\n"), (3, "")],
)
def test_lines_since_a_time_are_read(write: Write, seconds: float, text: str) -> None:
    log = write("a\nb", "c\nd\n", "e\n")
    assert read(log, since=NOON + timedelta(seconds=seconds)) == text
    assert read(log, since=NOON + timedelta(seconds=seconds), tail=1) == ("e\n" if text else "")


def test_the_part_before_a_rotation_is_read_too(write: Write) -> None:
    log = write("a\n", "b\n", "c\n", "d\n", limit=6)
    assert read(log) == "a\nb\nc\nd\n"
    assert read(log, tail=2) == "c\nd\n"
    assert read(log, tail=1, timestamps=True) == "2026-01-01T12:00:03.000000000Z d\n"
    assert read(log, since=NOON + timedelta(seconds=1)) == "b\nc\nd\n"


def test_a_followed_log_ends_with_its_run_and_survives_a_rotation(write: Write) -> None:
    log = write("a\n", limit=4)
    blocks = _blocks(log, follow=True, timestamps=True)
    assert next(blocks) == b"2026-01-01T12:00:00.000000000Z a\n"
    assert next(blocks) == b""
    write("b\n", "c", limit=4)
    assert next(blocks).endswith(b"01.000000000Z b\n")
    assert next(blocks).endswith(b"02.000000000Z c")
    write("d\n", limit=4)
    assert next(blocks) == b"d\n"
    assert next(blocks) == b""
    write("e\n", limit=4)
    log.ended = True
    assert [block[-2:] for block in blocks] == [b"e\n"]


def test_a_log_that_was_never_written_is_empty(tmp_path: Path) -> None:
    assert read(ContainerLog(tmp_path / "c.log"), tail=3, since=NOON, timestamps=True) == ""
    (tmp_path / "c.log").touch()
    assert read(ContainerLog(tmp_path / "c.log"), tail=3, since=NOON, timestamps=True) == ""
