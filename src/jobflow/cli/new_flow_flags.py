"""Flags of commands that create flows and may follow them until they end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from jobflow.display.formats import ObjectOutput

Params = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=VALUE",
        help="Set a param of the flow; VALUE is JSON or else text. May be repeated.",
        show_default=False,
    ),
]
SentOutput = Annotated[
    ObjectOutput | None,
    typer.Option(
        "-o", "--output", help="Print the new flows instead of one line each.", show_default=False
    ),
]


@dataclass(frozen=True, slots=True)
class FollowOptions:
    """How the new flows are followed and printed."""

    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until the flows have ended; print progress.")
    ] = False
    watch: Annotated[
        bool, typer.Option("--watch", help="Show the flows as trees until they have ended.")
    ] = False
    log: Annotated[
        bool, typer.Option("--log", help="Follow the logs of all pods until the flows have ended.")
    ] = False
    output: SentOutput = None

    @property
    def given(self) -> list[str]:
        """The flags that follow the flows, as far as they are set."""
        flags = {"--wait": self.wait, "--watch": self.watch, "--log": self.log}
        return [flag for flag, is_given in flags.items() if is_given]
