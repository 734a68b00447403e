"""Log lines of JobFlow and of its libraries: one JSON object for each."""

import asyncio
import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from jobflow.runtime import logs


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    """The stream of the log; restores the previous configuration."""
    root = logging.getLogger()
    before = root.handlers, root.level
    levels = {name: logging.getLogger(name).level for name in logs.LIBRARIES}
    stream = io.StringIO()
    logs.configure(stream=stream)
    yield stream
    root.handlers, level = before
    root.setLevel(level)
    for name, library_level in levels.items():
        logging.getLogger(name).setLevel(library_level)
    structlog.reset_defaults()


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_line_has_time_level_event_and_subject(stream: io.StringIO) -> None:
    structlog.get_logger("jobflow.test").info("job created", flow="team/nightly", step="a")
    (line,) = lines(stream)
    assert list(line)[:3] == ["time", "level", "event"]
    assert line.pop("time").endswith("Z")
    assert line == {
        "event": "job created",
        "level": "info",
        "logger": "jobflow.test",
        "flow": "team/nightly",
        "step": "a",
    }


def test_libraries_log_in_the_same_format(stream: io.StringIO) -> None:
    logging.getLogger("some.library").warning("%s is odd", "this")
    (line,) = lines(stream)
    assert (line["event"], line["level"], line["logger"]) == (
        "this is odd",
        "warning",
        "some.library",
    )


def test_a_request_that_is_cancelled_with_the_process_is_no_error(stream: io.StringIO) -> None:
    uvicorn = logging.getLogger("uvicorn.error")
    uvicorn.error("Exception in ASGI application", exc_info=asyncio.CancelledError())
    assert lines(stream) == []
    uvicorn.error("Exception in ASGI application", exc_info=ValueError("x"))
    assert len(lines(stream)) == 1


def test_info_lines_of_libraries_are_omitted(stream: io.StringIO) -> None:
    logging.getLogger("uvicorn.error").info("Started server process")
    structlog.get_logger("jobflow.test").debug("nothing to see")
    assert lines(stream) == []


def test_an_exception_is_one_line_with_its_traceback(stream: io.StringIO) -> None:
    try:
        raise ValueError("line one\nline two")
    except ValueError:
        structlog.get_logger("jobflow.test").exception("broken")
    (line,) = lines(stream)
    assert line["exception"].endswith("ValueError: line one\nline two")


def test_a_value_that_is_not_json_is_logged_as_text(stream: io.StringIO) -> None:
    structlog.get_logger("jobflow.test").info("odd", value=object)
    assert lines(stream)[0]["value"] == "<class 'object'>"


def test_bodies_without_logs_may_overlap() -> None:
    before = logging.getLogger("jobflow").level, structlog.get_config()
    first, second = logs.silenced(), logs.silenced()
    for each in (first, second):
        each.__enter__()
    first.__exit__(None, None, None)
    assert logging.getLogger("jobflow").level == logging.CRITICAL
    second.__exit__(None, None, None)
    assert (logging.getLogger("jobflow").level, structlog.get_config()) == before
