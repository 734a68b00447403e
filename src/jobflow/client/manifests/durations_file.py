"""`--durations FILE`: how long the jobs of steps and templates run, as YAML or JSON."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from io import BytesIO

from jobflow.api.duration import MAX_SECONDS, parse_duration
from jobflow.client.errors import UNUSABLE, CommandError
from jobflow.client.manifests.faults import ManifestFault
from jobflow.client.manifests.files import read_files
from jobflow.client.manifests.yaml_errors import NotYAMLError
from jobflow.client.manifests.yaml_nodes import MappingNode, Node, ScalarNode, documents
from jobflow.core.suggest import Suggester, did_you_mean

_SHAPE = 'is not a mapping: write a line for each step or JobTemplate, such as "train: 1h30m"'


def read_durations(file: str, names: Collection[str]) -> dict[str, float]:
    """Return the seconds by name of a step or JobTemplate. `names` are those that the flows have.
    Raises CommandError with all faults of the file."""
    [source] = list(read_files([file], BytesIO()))[:1]
    if isinstance(source, ManifestFault):
        raise CommandError(UNUSABLE, f"{file}: {source.message}")
    parsed = list(documents(source.text))
    if len(parsed) != 1 or not isinstance(root := parsed[0], MappingNode):
        errors = [each.message for each in parsed if isinstance(each, NotYAMLError)]
        raise CommandError(UNUSABLE, f"{file}: {errors[0] if errors else _SHAPE}")
    found: dict[str, float] = {}
    faults = [*_unknown(root, names), *_twice(root)]
    for name, entry in root.entries.items():
        try:
            found[name] = _seconds(entry.value)
        except ValueError as error:
            faults.append((entry.value.span.line, f"{name}: {error}"))
    if faults:
        lines = (f"{file}:{line}: {fault}" for line, fault in sorted(faults))
        raise CommandError(UNUSABLE, "\n".join(lines))
    return found


def _unknown(root: MappingNode, names: Collection[str]) -> Iterator[tuple[int, str]]:
    suggester = Suggester([*names])
    for name, entry in root.entries.items():
        if name not in names:
            guess = did_you_mean(suggester.nearest(name))
            yield (
                entry.key.line,
                f"{name}: no step or JobTemplate of the flows has this name{guess}",
            )


def _twice(root: MappingNode) -> Iterator[tuple[int, str]]:
    for each in root.duplicates:
        yield each.again.line, f"{each.key} is given twice: remove one of them"


def _seconds(node: Node) -> float:
    """Return the seconds of a Go duration or a number of seconds. Raises ValueError."""
    value = node.value if isinstance(node, ScalarNode) else None
    if isinstance(value, str):
        return parse_duration(value)
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= MAX_SECONDS:
        return float(value)
    raise ValueError("is not a duration: write it like 90s or 1h30m, or as a number of seconds")
