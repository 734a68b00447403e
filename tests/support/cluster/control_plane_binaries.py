"""Binaries of etcd, etcdutl, kube-apiserver and kube-controller-manager.

They are in the folder in KUBEBUILDER_ASSETS (the convention of Kubernetes' own test environments),
or Go builds them once from tests/cluster/go.mod into a cache outside the repository. As a program
it runs a command that needs them: control_plane_binaries.py COMMAND [ARGUMENT…]
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

MODULE = Path(__file__).parents[2] / "cluster"
BINARIES = ("etcd", "etcdutl", "kube-apiserver", "kube-controller-manager")
MISSING = "no kube-apiserver: set KUBEBUILDER_ASSETS, or install Go and run `make test-cluster`"


def find() -> Path | None:
    """Return the folder with all of the binaries; None if it does not exist yet."""
    chosen = os.environ.get("KUBEBUILDER_ASSETS")
    folder = Path(chosen) if chosen else _cache()
    return folder if all((folder / name).is_file() for name in BINARIES) else None


def build() -> Path | None:
    """Return the folder, and build the binaries if Go is installed: seconds to minutes.

    Raises CalledProcessError if Go fails, FileNotFoundError if KUBEBUILDER_ASSETS names a folder
    without them.
    """
    if (found := find()) or (go := shutil.which("go")) is None:
        return found
    if chosen := os.environ.get("KUBEBUILDER_ASSETS"):
        raise FileNotFoundError(f"KUBEBUILDER_ASSETS={chosen} lacks one of {', '.join(BINARIES)}")
    return build_tools(go, MODULE, _cache(), {"server": "etcd"}, "-ldflags", _stamp())


def build_tools(
    go: str,
    module: Path,
    folder: Path,
    renamed: Mapping[str, str],
    *flags: str,
    packages: Sequence[str] = ("tool",),
) -> Path:
    """Build the tools of a Go module, or some of its packages, into a folder, and return the
    folder. `renamed`: file names by those that Go gives. Raises CalledProcessError if Go fails."""
    target = folder.with_name(f"{folder.name}.{os.getpid()}")
    target.mkdir(parents=True)
    print(f"building {' '.join(packages)} of {module} into {folder}", file=sys.stderr)
    subprocess.run([go, "build", *flags, "-o", f"{target}/", *packages], cwd=module, check=True)
    for made, name in renamed.items():
        (target / made).rename(target / name)
    shutil.rmtree(folder, ignore_errors=True)
    target.rename(folder)
    return folder


def cache_of(module: Path, name: str) -> Path:
    """Return a folder outside the repository for exactly the versions that a Go module requires."""
    text = (module / "go.mod").read_bytes() + (module / "go.sum").read_bytes()
    return cached(f"{name}-{hashlib.sha256(text).hexdigest()[:16]}")


def cached(name: str) -> Path:
    """Return a folder outside the repository."""
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(home) / "jobflow" / name


def _cache() -> Path:
    return cache_of(MODULE, "control-plane")


def _stamp() -> str:
    """Return linker flags that set the binaries' version, which kubectl and Helm parse."""
    found = re.search(r"k8s\.io/kubernetes (v(\d+)\.(\d+)\.\d+)", (MODULE / "go.mod").read_text())
    assert found, "tests/cluster/go.mod requires no k8s.io/kubernetes"
    version, major, minor = found.groups()
    values = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
    package = "k8s.io/component-base/version"
    return " ".join(f"-X {package}.{key}={value}" for key, value in values.items())


def main(command: list[str]) -> int:
    """Run a command with KUBEBUILDER_ASSETS set; print one line if there are no binaries, which is
    a failure under JOBFLOW_REQUIRE_TOOLS=1."""
    folder = build()
    if folder is None:
        print(f"skipped: {MISSING}")
        return int(os.environ.get("JOBFLOW_REQUIRE_TOOLS") == "1")
    return subprocess.run(command, env={**os.environ, "KUBEBUILDER_ASSETS": str(folder)}).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
