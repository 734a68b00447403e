"""The entry point of the `jobflow` program. Ctrl-C and SIGTERM end it with one exit code each,
whenever they come."""

import os
import sys

from jobflow.runtime import ctrl_c


def main() -> None:
    """Run the command line and end the process with one of the exit codes of `cli.errors`."""
    ctrl_c.exit_at_once()
    try:
        try:
            from jobflow.cli.program import run

            is_plugin = os.path.basename(sys.argv[0]).startswith("kubectl-jobflow")
            code = run(sys.argv[1:], "kubectl jobflow" if is_plugin else "jobflow")
        finally:
            ctrl_c.ignore()
    except KeyboardInterrupt:  # also one that came before it was ignored
        code = ctrl_c.INTERRUPTED
    sys.exit(code)


if __name__ == "__main__":
    main()
