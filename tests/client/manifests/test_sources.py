"""FILE arguments: files, folders, stdin, and files that cannot be read."""

import io
import os
from pathlib import Path
from threading import Thread

import pytest

from jobflow.client.manifests.objects import load
from jobflow.client.manifests.sources import MAX_BYTES, ManifestFault, read_files


def read_names(*files: object, stdin: bytes = b"") -> list[str]:
    """Return the names of the files that were read, and the faults with their places."""
    return [
        f"{each.place}: {each.message}" if isinstance(each, ManifestFault) else each.name
        for each in read_files([str(file) for file in files], io.BytesIO(stdin))
    ]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_folder_is_read_by_name_without_subfolders(folder: Path) -> None:
    for name in ("b.yaml", "a.yml", "c.json", "notes.txt", ".hidden"):
        (folder / name).write_text("a: 1")
    (folder / "inner.yaml").mkdir()
    assert read_names(folder) == [str(folder / name) for name in ("a.yml", "b.yaml", "c.json")]
    assert read_names("notes.txt") == ["notes.txt"]
    assert read_names("b.yaml", "./b.yaml") == ["b.yaml"]
    assert read_names("-", "-", stdin=b"a: 1") == ["<stdin>"]


def test_unreadable_files_are_faults(folder: Path) -> None:
    (folder / "empty").mkdir()
    (folder / "loop.yaml").symlink_to("loop.yaml")
    (folder / "latin.yaml").write_bytes("a: b\nname: träin\n".encode("latin-1"))
    (folder / "huge.yaml").write_bytes(b"#" * (MAX_BYTES + 1))
    assert read_names("missing.yaml", "empty", "loop.yaml", "latin.yaml", "huge.yaml") == [
        "missing.yaml: no such file",
        "empty: contains no *.yaml, *.yml, *.json file",
        "loop.yaml: cannot be read: Too many levels of symbolic links",
        "latin.yaml:2:9: not UTF-8: byte 0xe4; save the file as UTF-8",
        "huge.yaml: is larger than 4 MiB, so it is no manifest",
    ]


def test_a_fifo_in_a_folder_is_a_fault_and_one_that_is_named_is_read(folder: Path) -> None:
    os.mkfifo(folder / "fifo.yaml")
    assert read_names(folder) == [
        f"{folder}/fifo.yaml: is not a regular file; to read it anyway, name it as FILE"
    ]
    writer = Thread(target=lambda: (folder / "fifo.yaml").write_text("a: 1"))
    writer.start()
    assert read_names("fifo.yaml") == ["fifo.yaml"]
    writer.join()


def test_a_python_file_says_how_to_check_its_flow(folder: Path) -> None:
    Path("a flow.py").write_text("from jobflow.authoring import Flow\n")
    assert read_names("a flow.py", "missing.py") == [
        "a flow.py: is Python, not YAML: run `python 'a flow.py'`, or `python 'a flow.py' | "
        "jobflow lint -` if it prints YAML",
        "missing.py: no such file",
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x7fELF\x02\0\0\xff", "contains NUL bytes; save the file as UTF-8 text"),
        ("kind: A".encode("utf-16"), "contains NUL bytes; save the file as UTF-8 text"),
        (b"#" * (MAX_BYTES + 1), "is larger than 4 MiB, so it is no manifest"),
    ],
    ids=["binary", "utf-16", "huge"],
)
def test_stdin_that_is_not_text_is_a_fault(content: bytes, message: str) -> None:
    assert read_names("-", stdin=content) == [f"<stdin>: {message}"]


def test_a_byte_order_mark_is_ignored() -> None:
    (manifest,) = load(["-"], io.BytesIO(b"\xef\xbb\xbfkind: A")).objects
    assert manifest.kind == "A"
