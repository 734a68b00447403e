"""The end of a command: its exit code, and the error that ends it."""

from __future__ import annotations

import logging
from collections.abc import Coroutine
from typing import Any

from jobflow.client.errors import UNUSABLE, CommandError, print_error, unreachable
from jobflow.kube.credentials import ConfigError
from jobflow.kube.errors import NetworkError


def run_command(work: Coroutine[Any, Any, int], *, is_brief: bool = True) -> int:
    """Run a command to its exit code; print the error that ends it. `is_brief`: it is no server."""
    from jobflow.runtime.event_loop import run

    logging.getLogger().setLevel(logging.CRITICAL)
    try:
        return run(work, is_brief=is_brief)
    except CommandError as error:
        print_error(*str(error).splitlines())
        return error.code
    except ConfigError as error:
        print_error(error)
    except (NetworkError, TimeoutError) as error:  # another OSError is of stdout: see cli.program
        print_error(unreachable(error))
    return UNUSABLE
