"""`jobflow serve`: runs the webhook and the controller. Its flags are the fields of `Settings`."""

import inspect
import logging
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer
from pydantic import ValidationError

from jobflow.app.serve import START_ERRORS
from jobflow.app.serve import serve as serve_cluster
from jobflow.app.settings import Settings, describe_errors, settings_help
from jobflow.client.errors import FAILED, SUCCESS, UNUSABLE, exit_on, print_error
from jobflow.runtime import logs
from jobflow.runtime.event_loop import PartDied, run


def serve(flags: Mapping[str, Any]) -> int:
    """Serve until SIGTERM. Return 1 if a part died, 2 if it could not start."""
    try:
        settings = Settings(**flags)
    except ValidationError as error:
        print_error(*describe_errors(error))
        return UNUSABLE
    logs.configure(level=logging.getLevelNamesMapping()[settings.log_level.upper()])
    with exit_on(UNUSABLE, *START_ERRORS), exit_on(FAILED, PartDied):
        run(serve_cluster(settings))
    return SUCCESS


def command() -> Callable[..., None]:
    """Return the function that typer calls, with a parameter for each setting."""

    def run_serve(**flags: Any) -> None:
        # the environment variables set flags that are not given
        given = {name: each for name, each in flags.items() if each not in (None, [])}
        raise typer.Exit(serve(given))

    parameters, kind = [], inspect.Parameter.KEYWORD_ONLY
    for entry in settings_help():
        default = f"; default: {entry.default}" if entry.default else ""
        text = f"{entry.description}. [{entry.variable}{default}]"
        option = typer.Option(entry.flag, metavar=entry.metavar, help=text, show_default=False)
        # any text, because `Settings` validates it, as it does variables
        value: Any = str | None if entry.metavar else bool | None
        if entry.repeatable:
            value = list[str] | None
        # None is "not given", which a default of typer would hide
        flag = Annotated[value, option]
        parameters.append(inspect.Parameter(entry.name, kind, default=None, annotation=flag))
    run_serve.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run_serve.__annotations__ = {each.name: each.annotation for each in parameters}
    return run_serve
