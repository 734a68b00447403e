"""FILE arguments: files, folders, standard input, and all that keeps one from being read."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from jobflow.cli.manifests.faults import ManifestFault
from jobflow.cli.manifests.files import MAX_BYTES, read_files
from jobflow.cli.manifests.objects import load


def read(*files: object, stdin: bytes = b"") -> list[str]:
    """Names of what was read; faults with their place."""
    return [
        f"{each.place}: {each.message}" if isinstance(each, ManifestFault) else each.source.name
        for each in read_files([str(file) for file in files], io.BytesIO(stdin))
    ]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_folder_stands_for_its_manifests_by_name_and_not_for_its_subfolders(folder: Path) -> None:
    for name in ("b.yaml", "a.yml", "c.json", "notes.txt", ".hidden"):
        (folder / name).write_text("a: 1")
    (folder / "inner.yaml").mkdir()
    assert read(folder) == [str(folder / name) for name in ("a.yml", "b.yaml", "c.json")]


def test_a_file_that_is_named_itself_may_be_called_anything(folder: Path) -> None:
    (folder / "flow.txt").write_text("a: 1")
    assert read("flow.txt") == ["flow.txt"]


def test_a_file_named_twice_is_read_once(folder: Path) -> None:
    (folder / "flow.yaml").write_text("a: 1")
    assert read("flow.yaml", folder, "./flow.yaml") == ["flow.yaml"]


def test_a_dash_is_standard_input(folder: Path) -> None:
    assert read("-", "-", stdin=b"a: 1") == ["<stdin>"]


def test_a_file_that_is_not_there(folder: Path) -> None:
    assert read("missing.yaml") == ["missing.yaml: no such file"]


def test_a_folder_without_manifests(folder: Path) -> None:
    (folder / "empty").mkdir()
    assert read("empty") == ["empty: contains no *.yaml, *.yml, *.json file"]


def test_something_that_is_no_file_and_no_folder(folder: Path) -> None:
    (folder / "loop.yaml").symlink_to("loop.yaml")
    assert read("loop.yaml") == ["loop.yaml: cannot be read: Too many levels of symbolic links"]


def test_text_that_is_not_utf8_is_shown_where(folder: Path) -> None:
    (folder / "latin.yaml").write_bytes("a: b\nname: träin\n".encode("latin-1"))
    assert read("latin.yaml") == ["latin.yaml:2:9: not UTF-8: byte 0xe4; save the file as UTF-8"]


def test_a_byte_order_mark_is_passed_over() -> None:
    (manifest,) = load(["-"], io.BytesIO(b"\xef\xbb\xbfkind: A")).objects
    assert manifest.kind == "A"


@pytest.mark.parametrize("content", [b"\x7fELF\x02\0\0\xff", "kind: A".encode("utf-16")])
def test_binary_files_and_utf16(content: bytes) -> None:
    assert read("-", stdin=content) == ["<stdin>: contains NUL bytes; save the file as UTF-8 text"]


def test_a_file_larger_than_any_manifest(folder: Path) -> None:
    (folder / "huge.yaml").write_bytes(b"#" * (MAX_BYTES + 1))
    assert read("huge.yaml") == ["huge.yaml: is larger than 4 MiB, so it is no manifest"]
    assert read("-", stdin=b"#" * (MAX_BYTES + 1)) == [
        "<stdin>: is larger than 4 MiB, so it is no manifest"
    ]
