"""Structured logs: one JSON object per line on one stream, including the logs of libraries.

A line has `time`, `level`, `event` and the subject of the event (flow, step, job …). Modules that
commands import too use `logging` with `extra`, because the import of structlog takes a sixth of the
time of a command.
"""

import asyncio
import logging
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from threading import Lock
from typing import Any, TextIO

import msgspec
import structlog

_SHARED: list[structlog.typing.Processor] = [
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
    structlog.stdlib.ExtraAdder(),
    structlog.processors.format_exc_info,
]
LIBRARIES = {
    "uvicorn.error": logging.WARNING,
    "aiohttp": logging.WARNING,
    "asyncio": logging.WARNING,
}
"""Loggers of libraries whose info lines do not help an operator."""


def configure(*, level: int = logging.INFO, stream: TextIO | None = None) -> None:
    """Log JSON lines from `level` up to `stream` (standard error), for the whole process."""

    def serialize(line: Mapping[str, Any], **_: Any) -> str:
        head = {key: line[key] for key in ("time", "level", "event") if key in line}
        return msgspec.json.encode(head | dict(line), enc_hook=repr).decode()

    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=_SHARED,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.JSONRenderer(serializer=serialize),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level)
    for name, least in LIBRARIES.items():
        logging.getLogger(name).setLevel(max(least, level))
    # uvicorn logs a request that is cancelled because the process ends, which is no error
    logging.getLogger("uvicorn.error").addFilter(
        lambda record: (
            not (record.exc_info and isinstance(record.exc_info[1], asyncio.CancelledError))
        )
    )
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *_SHARED,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        # `silenced` changes it while loggers exist
        cache_logger_on_first_use=False,
    )


_silencing = Lock()
_undo = ExitStack()
_bodies = 0


@contextmanager
def silenced() -> Iterator[None]:
    """Write no logs of ours while the body runs in a program of somebody else, whose own logging
    stays as it is. Bodies may overlap, in threads or tasks."""
    global _bodies
    with _silencing:
        if not _bodies:
            _undo.enter_context(_nothing_logged())
        _bodies += 1
    try:
        yield
    finally:
        with _silencing:
            _bodies -= 1
            if not _bodies:
                _undo.close()


@contextmanager
def _nothing_logged() -> Iterator[None]:
    config, was_configured = structlog.get_config(), structlog.is_configured()
    levels = {name: logging.getLogger(name).level for name in ("jobflow", *LIBRARIES)}
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    for name in levels:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)
        structlog.reset_defaults()
        if was_configured:
            structlog.configure(**config)
