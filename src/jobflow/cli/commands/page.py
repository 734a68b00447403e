"""Flags and help of the command that serves the page."""

from __future__ import annotations

from typing import Annotated

import typer

from jobflow.cli.commands.command import Commands, examples
from jobflow.client.errors import UNUSABLE, exit_on
from jobflow.client.options import Connection

commands = Commands()


@commands.command(
    short_help="Show flows in the browser, live.",
    epilog=examples(
        "jobflow ui",
        "jobflow ui -n team --context lab",
        "jobflow ui --no-browser --port 8217",
    ),
)
def ui(
    connection: Connection,
    port: Annotated[
        int, typer.Option(metavar="P", min=0, max=65535, help="Port of the page; 0: any.")
    ] = 0,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Only print the link.")] = False,
) -> None:
    """Show the flows of a cluster on a page in the browser, which follows all changes. The page is
    served on this machine only and acts with your rights on the cluster. The link is printed; it
    has a token, so do not share it.

    Runs until Ctrl-C. Exit code: 0 ended by Ctrl-C; 2 no cluster, or the port is in use.
    """
    from jobflow.cli.run_command import run_command
    from jobflow.page.serve import show_page
    from jobflow.runtime.http_listener import PortInUse

    with exit_on(UNUSABLE, PortInUse):
        work = show_page(connection, port=port, opens_browser=not no_browser)
        raise typer.Exit(run_command(work, is_brief=False))
