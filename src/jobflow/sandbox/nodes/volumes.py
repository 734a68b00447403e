"""Secrets and ConfigMaps that a pod names, and its volumes as folders of this machine.

Messages are a kubelet's (pkg/kubelet/kubelet_pods.go, pkg/volume/secret, pkg/volume/configmap) and
name keys, never values.
"""

from __future__ import annotations

import os
from base64 import b64decode
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec

from jobflow.api.resources import CONFIG_MAPS, SECRETS, VOLUME_CLAIMS, Object, Resource, Struct
from jobflow.core.admission.object_names import name_violations

Data = Mapping[str, bytes]
"""The values of a Secret or a ConfigMap, or the UID of a volume claim."""
Source = tuple[Resource, str]
"""A Secret, a ConfigMap or a volume claim, by its name."""
Sources = Mapping[Source, Data | None]
"""None: there is no such object."""

PRIVATE = 0o600


class MissingSource(Exception):
    """A Secret, a ConfigMap or a key that a pod needs does not exist."""


class FileItem(Struct):
    key: str = ""
    path: str = ""
    mode: int | None = None


class FilesSource(Struct):
    """A Secret, which has `secretName` in a volume and `name` in a projected one, or ConfigMap."""

    name: str = ""
    secret_name: str = ""
    items: list[FileItem] | None = None
    optional: bool | None = None
    default_mode: int | None = None


class Projection(Struct):
    secret: FilesSource | None = None
    config_map: FilesSource | None = None


class ProjectedSource(Struct):
    sources: list[Projection] | None = None
    default_mode: int | None = None


class ClaimSource(Struct):
    claim_name: str = ""


class Volume(Projection):
    name: str = ""
    persistent_volume_claim: ClaimSource | None = None
    empty_dir: dict[str, Any] | None = None
    projected: ProjectedSource | None = None

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder of its pod, with files or empty."""
        return self.empty_dir is not None or self.projected is not None or bool(self.parts)

    @property
    def parts(self) -> list[tuple[str, Source, FilesSource]]:
        """The Secrets and ConfigMaps of its files, each with the field that names it."""
        places: list[tuple[str, Projection]] = [("", self)]
        if self.projected is not None:
            below = enumerate(self.projected.sources or ())
            places = [(f"projected.sources[{i}].", each) for i, each in below]
        found = []
        for place, each in places:
            if (files := each.secret) is not None:
                found.append((f"{place}secret", (SECRETS, files.secret_name or files.name), files))
            if (files := each.config_map) is not None:
                found.append((f"{place}configMap", (CONFIG_MAPS, files.name), files))
        return found


def is_inside(path: str) -> bool:
    found = PurePosixPath(path)
    return not found.is_absolute() and ".." not in found.parts


def volume_faults(volume: Volume, path: str) -> Iterator[str]:
    # Otherwise its folder could be anywhere on this machine.
    if volume.is_folder and any(name_violations("", volume.name)):
        yield f'{path}.name: "{volume.name}" is not the name of a volume'
    for field, (_, name), files in volume.parts:
        if not name:
            key = "secretName" if field == "secret" else "name"
            yield f"{path}.{field}.{key}: write the name of the object"
        for index, item in enumerate(files.items or ()):
            if not item.path or not is_inside(item.path):
                where = f"{path}.{field}.items[{index}].path"
                yield f"{where}: it must be a path inside of the volume"


def read_data(body: bytes) -> Data:
    """Return the data of a Secret, a ConfigMap or a volume claim as stored."""
    stored = msgspec.json.decode(body, type=_Stored)
    if stored.kind == VOLUME_CLAIMS.kind:
        return {"uid": stored.metadata.uid.encode()}
    if stored.kind == SECRETS.kind:
        return {key: b64decode(text) for key, text in (stored.data or {}).items()}
    texts = {key: text.encode() for key, text in (stored.data or {}).items()}
    return texts | {key: b64decode(text) for key, text in (stored.binary_data or {}).items()}


class _Stored(Object):
    data: dict[str, str] | None = None
    binary_data: dict[str, str] | None = None


def values_of(sources: Sources, source: Source, *, optional: bool | None) -> Data:
    """Return the values, none of an optional object that does not exist. Raises MissingSource."""
    found = sources.get(source)
    if found is None and not optional:
        kind, name = source
        raise MissingSource(f'{kind.kind.lower()} "{name}" not found')
    return found or {}


def fill(volume: Volume, folder: Path, sources: Sources) -> None:
    """Make the folder of a volume of one pod, with its files. Raises MissingSource, OSError."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    default = volume.projected.default_mode if volume.projected is not None else None
    for _, source, files in volume.parts:
        values = values_of(sources, source, optional=files.optional)
        items = files.items
        if items is None:
            items = [FileItem(key=key, path=key) for key in values]
        for item in items:
            if item.key in values:
                mode = next(filter(None, (item.mode, files.default_mode, default)), 0)
                write_file(folder / item.path, values[item.key], mode)
            elif not files.optional:
                word = "secret" if source[0] is SECRETS else "config"
                raise MissingSource(f"references non-existent {word} key: {item.key}")


def write_file(path: Path, content: bytes, mode: int = 0) -> None:
    """Write a file that only this user can read, and execute if `mode` says so."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    with os.fdopen(os.open(path, flags, PRIVATE | (mode & 0o100)), "wb") as file:
        file.write(content)
