"""The command line, run in this process with both streams captured."""

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
class Result:
    """Exit code and output of a command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def jobflow(*arguments: object, stdin: str | bytes = b"") -> Result:
    """Run `jobflow ARGUMENTS`. It fails on exceptions other than SystemExit."""
    runner = CliRunner(env={"COLUMNS": "80", "NO_COLOR": "1"})
    with _logging_restored():
        result = runner.invoke(app, [str(argument) for argument in arguments], input=stdin)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return Result(result.exit_code, result.stdout, result.stderr)


@contextmanager
def _logging_restored() -> Iterator[None]:
    """Restore the logging of the process, which commands configure."""
    root = logging.getLogger()
    handlers, level, config = root.handlers, root.level, structlog.get_config()
    try:
        yield
    finally:
        root.handlers, root.level = handlers, level
        structlog.configure(**config)
