"""Builds of the peers of the comparison, with a stand-in for Go that notes how it is called."""

import os
from pathlib import Path

import pytest
from bench import build_peers
from bench.controllers import VOLCANO_BINARIES, folder_of

GO = """#!/bin/sh
# go build -o FOLDER/ PACKAGE…
echo "$PWD $*" >> "$CALLS"
shift 2
folder=$1
shift
for package; do touch "$folder$(basename "$package")"; done
"""


@pytest.fixture
def go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    monkeypatch.setattr(build_peers, "PEERS", tmp_path / "peers")
    path = tmp_path / "go"
    path.write_text(GO)
    path.chmod(0o755)
    return str(path)


def checkout(folder: Path, *commands: str) -> Path:
    for command in commands:
        (folder / "cmd" / command).mkdir(parents=True)
    return folder


def test_volcano_is_built_from_a_checkout(
    go: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = checkout(tmp_path / "volcano", "controller-manager", "webhook-manager")
    before = sorted(source.rglob("*"))
    monkeypatch.setenv("VOLCANO_SOURCE", str(source))
    ((name, folder),) = build_peers.built(go)
    call = Path(os.environ["CALLS"]).read_text()
    assert call.startswith(f"{source} build -o ")
    assert call.endswith("/ ./cmd/controller-manager ./cmd/webhook-manager\n")
    assert sorted(source.rglob("*")) == before
    monkeypatch.setenv(f"{name}_ASSETS", str(folder))
    assert folder_of("VOLCANO_ASSETS", VOLCANO_BINARIES) == folder


def test_another_folder_is_refused(
    go: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = checkout(tmp_path / "other", "controller-manager")
    monkeypatch.setenv("VOLCANO_SOURCE", str(source))
    with pytest.raises(SystemExit, match=r"other has no cmd/webhook-manager$"):
        list(build_peers.built(go))


def test_without_a_checkout_volcano_is_not_built(go: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VOLCANO_SOURCE", raising=False)
    assert list(build_peers.built(go)) == []
