"""Structured logs: one JSON object per line on one stream, including the logs of libraries.

A line has `time`, `level`, `event` and the subject of the event (flow, step, job …).
"""

import logging
import sys
from collections.abc import Mapping
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
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=_SHARED,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.JSONRenderer(serializer=_json),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level)
    for name, least in LIBRARIES.items():
        logging.getLogger(name).setLevel(max(least, level))
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *_SHARED,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )


def _json(line: Mapping[str, Any], **_: Any) -> str:
    """Encode a line with time, level and event first."""
    head = {key: line[key] for key in ("time", "level", "event") if key in line}
    return msgspec.json.encode(head | dict(line), enc_hook=repr).decode()
