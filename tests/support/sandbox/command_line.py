"""The command line as tests call it: in this process, both streams kept apart."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import structlog
from typer.testing import CliRunner

from jobflow.cli.main import app


@dataclass(frozen=True, slots=True)
class Said:
    """What one command said."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def jobflow(*arguments: object, stdin: str | bytes = b"") -> Said:
    """Run `jobflow ARGUMENTS`; nothing but an exit may come out of it."""
    runner = CliRunner(env={"COLUMNS": "80", "NO_COLOR": "1"})
    with _logging_kept():
        done = runner.invoke(app, [str(argument) for argument in arguments], input=stdin)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return Said(done.exit_code, done.stdout, done.stderr)


@contextmanager
def _logging_kept() -> Iterator[None]:
    """Commands configure logging for a process that is theirs; here it is not."""
    root = logging.getLogger()
    handlers, level, config = root.handlers, root.level, structlog.get_config()
    try:
        yield
    finally:
        root.handlers, root.level = handlers, level
        structlog.configure(**config)
