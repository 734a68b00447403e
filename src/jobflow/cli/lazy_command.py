"""A command that builds its flags only when it is called or asked for help, so that `jobflow
--help` does not import what the flags are made from."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import typer
from typer.core import TyperCommand


class LazyCommand(TyperCommand):
    """A command whose callback returns the function to run; its parameters are the flags."""

    @cached_property
    def _command(self) -> Any:
        assert self.callback is not None
        app = typer.Typer(add_completion=False, rich_markup_mode=None)
        app.command()(self.callback())
        return typer.main.get_command(app)

    def get_params(self, ctx: Any) -> Any:
        return self._command.get_params(ctx)

    def invoke(self, ctx: Any) -> Any:
        return self._command.invoke(ctx)
