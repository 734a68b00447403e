"""JobFlow as it was at an earlier commit, as a program beside the present one.

Its sources and a virtual environment from its own lock are in the cache outside the repository,
where they are made once.
"""

import io
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

from support.cluster.control_plane_binaries import cached
from support.paths import ROOT

MAIN = "from jobflow.cli.main import main; main()"


class EarlierVersion:
    """A version in a folder of the cache."""

    def __init__(self, folder: Path) -> None:
        self.source = folder / "source"
        self._environment = folder / "environment"

    @property
    def python(self) -> Path:
        return self._environment / "bin" / "python"

    @property
    def program(self) -> tuple[str, ...]:
        """The command that is `jobflow`."""
        return (str(self.python), "-c", MAIN)

    @property
    def crds(self) -> Path:
        """The folder of its definitions."""
        return self.source / "charts" / "jobflow" / "crds"

    def install(self, archive: bytes) -> None:
        """Unpack the sources, and install what their lock names."""
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            tar.extractall(self.source, filter="data")
        subprocess.run([sys.executable, "-m", "venv", str(self._environment)], check=True)
        pip = [str(self.python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        lock = self.source / "requirements-runtime.lock"
        subprocess.run([*pip, "--require-hashes", "--no-deps", "-r", str(lock)], check=True)
        (packages,) = self._environment.glob("lib/*/site-packages")
        (packages / "jobflow.pth").write_text(os.path.relpath(self.source / "src", packages))


def earlier_version(commit: str) -> EarlierVersion | None:
    """Return the version of a commit, installed; None if this clone of the repository lacks it.

    Raises CalledProcessError if its packages cannot be installed.
    """
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    folder = cached(f"jobflow-{commit[:12]}-python{python}")
    if folder.is_dir():
        return EarlierVersion(folder)
    archive = _archive(commit)
    if archive is None:
        return None
    made = folder.with_name(f"{folder.name}.{os.getpid()}")
    try:
        EarlierVersion(made).install(archive)
        made.rename(folder)
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return EarlierVersion(folder)


def _archive(commit: str) -> bytes | None:
    if (git := shutil.which("git")) is None:
        return None
    command = [git, "-C", str(ROOT), "archive", commit]
    done = subprocess.run(command, capture_output=True)
    return done.stdout if done.returncode == 0 else None
