"""The command line, run in this process with both streams captured."""

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import structlog
import typer
from typer.testing import CliRunner

from jobflow.cli.program import Program

PROGRAM = typer.Typer(name="jobflow", cls=Program)
"""The program as an app without commands of its own, because CliRunner builds the commands of an
app for each call, which takes longer than most calls. `Program` runs those of `cli.program`."""
PROGRAM.callback()(lambda: None)


@dataclass(frozen=True, slots=True)
class Result:
    """Exit code and output of a command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def jobflow(*arguments: object, stdin: str | bytes = b"", columns: int = 0) -> Result:
    """Run `jobflow ARGUMENTS`, with `columns` on a terminal of this width that knows no colours. It
    fails on exceptions other than SystemExit."""
    terminal = {"FORCE_COLOR": "1", "TERM": "dumb", "LINES": "25"} if columns else {}
    runner = CliRunner(env={"COLUMNS": str(columns or 80), "NO_COLOR": "1", **terminal})
    with logging_restored():
        result = runner.invoke(PROGRAM, [str(argument) for argument in arguments], input=stdin)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return Result(result.exit_code, result.stdout, result.stderr)


@contextmanager
def logging_restored() -> Iterator[None]:
    """Restore the logging of the process, which commands configure."""
    root = logging.getLogger()
    handlers, level, config = root.handlers, root.level, structlog.get_config()
    try:
        yield
    finally:
        root.handlers, root.level = handlers, level
        structlog.configure(**config)
