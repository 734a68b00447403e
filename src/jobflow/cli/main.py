"""The entry point of the `jobflow` program."""

import gc
import os
import sys

from jobflow.runtime import ctrl_c

MANY_OBJECTS = 100_000
"""New objects after which Python looks for garbage. `event_loop` sets it back for servers."""


def main() -> None:
    """Run the command line and end the process with one of the exit codes of `client.errors`."""
    ctrl_c.exit_at_once()
    # imports make many objects that stay: looking at them is a tenth of a short command's time
    gc.set_threshold(MANY_OBJECTS)
    try:
        try:
            from jobflow.cli.program import run  # Ctrl-C may come while it imports

            is_plugin = os.path.basename(sys.argv[0]).startswith("kubectl-jobflow")
            code = run(sys.argv[1:], "kubectl jobflow" if is_plugin else "jobflow")
        finally:
            ctrl_c.ignore()
            gc.freeze()  # or Python looks for garbage once more: a fifth of the time of `get`
    except KeyboardInterrupt:  # also one that came before it was ignored
        code = ctrl_c.INTERRUPTED
    sys.exit(code)


if __name__ == "__main__":
    main()
