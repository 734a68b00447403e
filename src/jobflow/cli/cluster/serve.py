"""`jobflow serve`: settings in, exit code out. A flag is written once, as a field of the settings.
What is served is jobflow.serve's business."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer
from pydantic import ValidationError

from jobflow.app.serve import START_ERRORS, PartDied, run
from jobflow.app.serve import serve as serve_cluster
from jobflow.app.settings import SettingHelp, Settings, describe_errors, settings_help
from jobflow.cli.exit_codes import FAULTY, FINE, UNUSABLE, complain
from jobflow.runtime import logs


def serve(flags: Mapping[str, Any]) -> int:
    """Serve until told to stop: 0; 1 where a part died, 2 where it could not begin."""
    try:
        settings = Settings(**flags)
    except ValidationError as error:
        complain("serve", *describe_errors(error))
        return UNUSABLE
    logs.configure(level=logging.getLevelNamesMapping()[settings.log_level.upper()])
    try:
        run(serve_cluster(settings))
    except START_ERRORS as error:
        complain("serve", str(error))
        return UNUSABLE
    except PartDied as error:
        complain("serve", str(error))
        return FAULTY
    return FINE


def command() -> Callable[..., None]:
    """What typer calls: a function with a parameter for each setting; None: it was not given."""

    def called(**flags: Any) -> None:
        given = {name: value for name, value in flags.items() if value is not None}
        raise typer.Exit(serve(given))

    parameters = [_parameter(entry) for entry in settings_help()]
    called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return called


def _parameter(entry: SettingHelp) -> inspect.Parameter:
    """A flag takes text, as the environment does: the settings alone judge it."""
    option = typer.Option(entry.flag, metavar=entry.metavar, help=_help(entry), show_default=False)
    takes: Any = str | None if entry.metavar else bool | None
    return inspect.Parameter(
        entry.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[takes, option],
    )


def _help(entry: SettingHelp) -> str:
    default = f"; default: {entry.default}" if entry.default else ""
    return f"{entry.description}. [{entry.variable}{default}]"
