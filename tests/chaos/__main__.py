"""Run the chaos with a seed for some minutes: `make test-chaos`."""

import argparse
import asyncio
import logging
import random
import sys
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp

from chaos.run import chaos
from support.cluster.control_plane_binaries import MISSING, find
from support.cluster.real_cluster import real_cluster


def main() -> int:
    """Print what happens, and return 1 if an invariant is violated."""
    parser = argparse.ArgumentParser(prog="chaos", description=__doc__)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    parser.add_argument("--minutes", type=float, default=10.0)
    options = parser.parse_args()
    logging.getLogger("jobflow").addHandler(logging.NullHandler())
    if (assets := find()) is None:
        parser.error(MISSING)
    home = Path(mkdtemp(prefix="chaos-"))
    print(f"logs are in {home}; the folder is deleted if no invariant is violated")
    with real_cluster(assets, home / "control-plane") as real:
        violations = asyncio.run(chaos(real, home, options.seed, options.minutes * 60))
    if not violations:
        rmtree(home)
    return int(bool(violations))


if __name__ == "__main__":
    sys.exit(main())
