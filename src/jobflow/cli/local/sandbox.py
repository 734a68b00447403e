"""`jobflow sandbox`: keeps a sandbox up for kubectl. What is in it, jobflow.serve composes."""

from __future__ import annotations

import logging
import shlex
from pathlib import Path

from jobflow.app.serve import START_ERRORS, PartDied, SandboxOptions, run, sandbox_world
from jobflow.cli.exit_codes import FAULTY, FINE, UNUSABLE, complain
from jobflow.cli.flags import Nodes
from jobflow.cli.local.node_runner import NoFolder, runner
from jobflow.cli.signals import interruption
from jobflow.runtime import logs
from jobflow.sandbox.nodes.process.runner import ProcessRunner


def sandbox(*, port: int, webhook_port: int, kubeconfig: Path, nodes: Nodes) -> int:
    """Keep it up until told to stop: 0; 1 where a part died, 2 where it could not begin."""
    logs.configure(level=logging.WARNING)
    try:
        with runner(nodes) as node:
            options = SandboxOptions(
                port=port,
                webhook_port=webhook_port,
                kubeconfig=kubeconfig.absolute(),
                runner=node,
            )
            run(_kept_up(options))
    except (NoFolder, *START_ERRORS) as error:
        complain("sandbox", str(error))
        return UNUSABLE
    except OSError as error:
        complain("sandbox", f"{error.filename or kubeconfig}: {error.strerror}")
        return UNUSABLE
    except PartDied as error:
        complain("sandbox", str(error))
        return FAULTY
    return FINE


async def _kept_up(options: SandboxOptions) -> None:
    with interruption() as stop:
        async with sandbox_world(options) as world:
            print(f"export KUBECONFIG={shlex.quote(str(world.kubeconfig))}")
            if isinstance(options.runner, ProcessRunner):
                print(f"# logs: {options.runner.folder}")
            print("ready", flush=True)
            await stop.wait()
