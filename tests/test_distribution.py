"""`make dist`: the wheel runs a flow in an environment without this repository."""

import os
import subprocess
import sys
import sysconfig
import tarfile
from pathlib import Path

import pytest

from jobflow import __version__
from support.paths import ROOT


def run(*command: str | Path, cwd: Path = ROOT) -> str:
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("MAKEFLAGS", "PYTHONPATH", "VIRTUAL_ENV")
    }
    result = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    installed = f"--assume-old={sys.prefix}/installed"
    run("make", "-s", installed, "dist", f"VENV={sys.prefix}", f"DIST={folder}")
    return folder


@pytest.mark.long
def test_the_wheel_runs_a_flow_in_a_clean_environment(distributions: Path, tmp_path: Path) -> None:
    """Dependencies come from this environment, whose own .pth files Python does not read there."""
    [wheel] = distributions.glob(f"volcano_jobflow-{__version__}-*.whl")
    clean = tmp_path / "clean"
    python = clean / "bin" / "python"
    run(sys.executable, "-m", "venv", "--without-pip", clean)
    run(sys.executable, *"-m pip --python".split(), python, *"install --no-deps".split(), wheel)
    [packages] = clean.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))

    imported = run(python, "-c", "import jobflow; print(jobflow.__file__)", cwd=tmp_path)
    assert Path(imported.strip()).is_relative_to(clean)
    flow = ROOT / "examples" / "entries-and-exits.yaml"
    table = run(clean / "bin" / "jobflow", "run", "--speed", "100", flow, cwd=tmp_path)
    assert table.count("Completed") >= 7


@pytest.mark.long
def test_the_sdist_contains_the_sources_of_the_wheel(distributions: Path) -> None:
    [archive] = distributions.glob("*.tar.gz")
    top = f"volcano_jobflow-{__version__}"
    with tarfile.open(archive) as opened:
        names = set(opened.getnames())
    assert archive.name == f"{top}.tar.gz"
    assert {f"{top}/{name}" for name in ("pyproject.toml", "README.md", "LICENSE")} <= names
    sources = (ROOT / "src").rglob("*.py")
    assert {f"{top}/{source.relative_to(ROOT)}" for source in sources} <= names
    assert not any(name.startswith(f"{top}/tests") for name in names)
