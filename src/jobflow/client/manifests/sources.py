"""FILE arguments as texts (files, folders and stdin), and faults at places in them."""

import os
import shlex
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import BinaryIO

from jobflow.client.manifests.yaml_nodes import lines_of

UNREADABLE = "Unreadable"
"""Reason of a fault because of which a file or a document could not be read at all."""


@dataclass(frozen=True, eq=False)
class Source:
    """A file or stdin."""

    name: str
    text: str = field(default="", repr=False)

    @cached_property
    def lines(self) -> list[str]:
        return lines_of(self.text)


@dataclass(frozen=True, slots=True)
class SourcePlace:
    """A place in a source: line and column from 1; line 0 is the whole source."""

    source: Source
    line: int = 0
    column: int = 0
    width: int = 1

    def __str__(self) -> str:
        """`file:line:column`, the format that editors can follow."""
        return f"{self.source.name}:{self.line}:{self.column}" if self.line else self.source.name


@dataclass(frozen=True, slots=True)
class ManifestFault:
    """A fault or a warning at a place, with the object that has it if there is one."""

    place: SourcePlace
    reason: str
    """"" for a warning that is never a fault."""
    message: str
    """The fault and how to mend it, without place and path."""
    path: str = ""
    kind: str = ""
    name: str = ""
    is_field_warning: bool = False
    """Whether admission only warns about it."""

    @property
    def sentence(self) -> str:
        """`path: message`, or the message if there is no path."""
        return f"{self.path}: {self.message}" if self.path else self.message

    def as_json(self) -> dict[str, object]:
        """Return an element of the list of `jobflow lint -o json`."""
        place, fields = self.place, ("kind", "name", "path", "reason", "message")
        found = {"file": place.source.name, "line": place.line, "column": place.column}
        return found | {name: getattr(self, name) for name in fields}


SUFFIXES = (".yaml", ".yml", ".json")
"""Files that are read from a folder, as kubectl does; a file given by name may have any name."""
PYTHON_SUFFIX = ".py"
"""A file that writes flows and cannot be read as one."""
MAX_BYTES = 4 * 1024 * 1024
"""The largest file; an API server accepts no object above about 1.5 MiB."""
STDIN = "<stdin>"


def read_files(files: Iterable[str], stdin: BinaryIO) -> Iterator[Source | ManifestFault]:
    """Return each FILE once, in order, or a fault if it cannot be read. A folder is replaced by its
    manifests, sorted by name, without subfolders."""
    seen: set[str] = set()
    for name in files:
        inside = _folder(name) if name != "-" and os.path.isdir(name) else [name]
        for file in inside:
            if isinstance(file, ManifestFault):
                yield file
                continue
            # two names of one file would be two objects of one name
            identity = file if file == "-" else os.path.realpath(file)
            if identity not in seen:
                seen.add(identity)
                yield _read(file, stdin)


def _folder(name: str) -> list[str | ManifestFault]:
    try:
        files = sorted(path for path in Path(name).iterdir() if path.suffix in SUFFIXES)
    except OSError as error:
        return [_unreadable(name, f"cannot be read: {error.strerror}")]
    if not files:
        return [_unreadable(name, f"contains no {', '.join('*' + each for each in SUFFIXES)} file")]
    found: list[str | ManifestFault] = []
    for file in files:
        if file.is_file() or not file.exists():
            found.append(str(file))
        elif not file.is_dir():
            # nobody may ever write into a FIFO that a folder has
            message = "is not a regular file; to read it anyway, name it as FILE"
            found.append(_unreadable(str(file), message))
    return found


def _read(file: str, stdin: BinaryIO) -> Source | ManifestFault:
    name = STDIN if file == "-" else file
    try:
        with nullcontext(stdin) if file == "-" else open(file, "rb") as opened:
            # no more, whatever the file turns out to be
            content = opened.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return _unreadable(name, "no such file")
    except OSError as error:
        return _unreadable(name, f"cannot be read: {error.strerror}")
    if len(content) > MAX_BYTES:
        return _unreadable(name, f"is larger than {MAX_BYTES // 2**20} MiB, so it is no manifest")
    # after it was read, so that a missing file is said to be missing
    if name.endswith(PYTHON_SUFFIX):
        command = f"python {shlex.quote(name)}"
        check = f"`{command} | jobflow lint -` if it prints YAML"
        return _unreadable(name, f"is Python, not YAML: run `{command}`, or {check}")
    try:
        return Source(name, content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        at = error.start
    # a binary file, or UTF-16
    if b"\0" in content:
        return _unreadable(name, "contains NUL bytes; save the file as UTF-8 text")
    # columns are characters, not bytes
    before = lines_of(content[:at].decode("utf-8-sig"))
    source = Source(name, content.decode("utf-8-sig", errors="replace"))
    place = SourcePlace(source, len(before), len(before[-1]) + 1)
    message = f"not UTF-8: byte 0x{content[at]:02x}; save the file as UTF-8"
    return ManifestFault(place, UNREADABLE, message)


def _unreadable(name: str, message: str) -> ManifestFault:
    return ManifestFault(SourcePlace(Source(name)), UNREADABLE, message)
