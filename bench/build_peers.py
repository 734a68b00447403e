"""`python -m bench.build_peers` builds the peers that `python -m bench cluster` compares with.

Go builds the tools that each go.mod in bench/peers requires into a cache outside the repository.
If VOLCANO_SOURCE names a checkout of Volcano, Go also builds Volcano's binaries there. It prints
the environment variables that name their folders.
"""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from bench.controllers import VOLCANO_BINARIES
from support.cluster.control_plane_binaries import build_tools, cache_of, cached

PEERS = Path(__file__).parent / "peers"


def main() -> None:
    """Build what is not in the cache yet, and Volcano's, whose sources may have changed."""
    go = shutil.which("go")
    if go is None:
        raise SystemExit("install Go to build the peers")
    for name, folder in built(go):
        print(f"export {name}_ASSETS={folder}", flush=True)


def built(go: str) -> Iterator[tuple[str, Path]]:
    """Build each peer. Yield its name, as it is in its variable, and the folder of its binaries.

    Raises SystemExit if VOLCANO_SOURCE is no checkout, CalledProcessError if Go fails.
    """
    for module in sorted(path.parent for path in PEERS.glob("*/go.mod")):
        folder = cache_of(module, module.name)
        if not folder.is_dir():
            build_tools(go, module, folder, {})
        yield module.name.upper(), folder
    if source := os.environ.get("VOLCANO_SOURCE"):
        yield "VOLCANO", _volcano(go, Path(source))


def _volcano(go: str, source: Path) -> Path:
    """Build Volcano's binaries with the versions that its own go.mod requires."""
    commands = {name.removeprefix("vc-"): name for name in VOLCANO_BINARIES}
    if missing := [name for name in commands if not (source / "cmd" / name).is_dir()]:
        raise SystemExit(f"VOLCANO_SOURCE={source} has no cmd/{' and no cmd/'.join(missing)}")
    packages = [f"./cmd/{name}" for name in commands]
    return build_tools(go, source, cached("volcano"), commands, packages=packages)


if __name__ == "__main__":
    main()
