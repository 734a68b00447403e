"""A command whose flags are made only when it is called or asked for help: what they are made from
takes long to import, and `jobflow --help` has to answer at once."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import typer
from typer.core import TyperCommand


class LateCommand(TyperCommand):
    """Its callback carries nothing out: it returns the function that does, whose parameters are
    the command's flags."""

    @cached_property
    def _made(self) -> Any:
        assert self.callback is not None
        app = typer.Typer(add_completion=False, rich_markup_mode=None)
        app.command()(self.callback())
        return typer.main.get_command(app)

    def get_params(self, ctx: Any) -> Any:
        return self._made.get_params(ctx)

    def invoke(self, ctx: Any) -> Any:
        return self._made.invoke(ctx)
