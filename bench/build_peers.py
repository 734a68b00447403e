"""`python -m bench.build_peers` builds the peers that `python -m bench cluster` compares with.

Go builds the tools that each go.mod in bench/peers requires into a cache outside the repository. It
prints the environment variables that name their folders.
"""

import shutil
from pathlib import Path

from support.cluster.control_plane_binaries import build_tools, cache_of

PEERS = Path(__file__).parent / "peers"


def main() -> None:
    """Build what is not in the cache yet."""
    go = shutil.which("go")
    if go is None:
        raise SystemExit("install Go to build the peers")
    for module in sorted(path.parent for path in PEERS.glob("*/go.mod")):
        folder = cache_of(module, module.name)
        if not folder.is_dir():
            build_tools(go, module, folder, {})
        print(f"export {module.name.upper()}_ASSETS={folder}", flush=True)


if __name__ == "__main__":
    main()
