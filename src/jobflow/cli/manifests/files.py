"""Reads the FILE arguments: files, folders, standard input. Knows nothing of what is in them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from jobflow.cli.manifests.faults import UNREADABLE, Fault, Place, Source
from jobflow.cli.manifests.yaml_nodes import lines_of

SUFFIXES = (".yaml", ".yml", ".json")
"""What is read of a folder, as kubectl does; a file that is named itself may be called anything."""
MAX_BYTES = 4 * 1024 * 1024
"""The largest file; an API server takes no object over about 1.5 MiB."""
STDIN = "<stdin>"


@dataclass(frozen=True, slots=True)
class Text:
    """What one file holds."""

    source: Source
    content: str


def read(files: Iterable[str], stdin: BinaryIO) -> Iterator[Text | Fault]:
    """Each text behind FILE arguments, in order, or why it cannot be read.

    A folder stands for its *.yaml, *.yml and *.json by name, its subfolders not. A file that is
    named twice is read once.
    """
    seen: set[str] = set()
    for name in files:
        inside = _folder(name) if name != "-" and os.path.isdir(name) else [name]
        if isinstance(inside, Fault):
            yield inside
            continue
        for file in inside:
            identity = file if file == "-" else os.path.realpath(file)
            if identity not in seen:
                seen.add(identity)
                yield _text(file, stdin)


def _folder(name: str) -> list[str] | Fault:
    try:
        files = sorted(path for path in Path(name).iterdir() if path.suffix in SUFFIXES)
    except OSError as error:
        return _unreadable(name, f"cannot be read: {error.strerror}")
    if not files:
        return _unreadable(name, f"no {', '.join('*' + suffix for suffix in SUFFIXES)} file in it")
    return [str(file) for file in files if not file.is_dir()]


def _text(name: str, stdin: BinaryIO) -> Text | Fault:
    called = STDIN if name == "-" else name
    try:
        content = stdin.read(MAX_BYTES + 1) if name == "-" else _bytes(name)
    except FileNotFoundError:
        return _unreadable(called, "no such file")
    except OSError as error:
        return _unreadable(called, f"cannot be read: {error.strerror}")
    if len(content) > MAX_BYTES:
        return _unreadable(called, f"larger than {MAX_BYTES // 2**20} MiB, no manifest is")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return _not_utf8(called, content, error.start)
    return Text(Source(called, lines_of(text)), text)


def _bytes(name: str) -> bytes:
    with open(name, "rb") as file:
        return file.read(MAX_BYTES + 1)


def _not_utf8(called: str, content: bytes, at: int) -> Fault:
    if b"\0" in content:
        return _unreadable(called, "not text: it holds NUL bytes, as binary files and UTF-16 do")
    before = lines_of(content[:at].decode("utf-8-sig"))
    source = Source(called, lines_of(content.decode("utf-8-sig", errors="replace")))
    place = Place(source, len(before), len(before[-1]) + 1)
    return Fault(place, UNREADABLE, f"not UTF-8: byte 0x{content[at]:02x}; save the file as UTF-8")


def _unreadable(called: str, why: str) -> Fault:
    return Fault(Place(Source(called)), UNREADABLE, why)
