"""A pattern of another workflow engine: a file of tests/patterns.

Its first lines are a comment in YAML:

- `peer`: file of the other engine, in its repository
- `lines`: lines of that file (`count_lines`), if it is YAML
- `says`: the behaviour that the other engine's documentation describes
- `phase`: phase of the flow at its end; Succeed if not set
- `steps`: names of steps by their phase and reason; together they are all steps
- `order`: chains such as `a < b c < d`: each job of a group ends before any of the next is created
- `jobs`: number of jobs of a step, if it is not one
- `outputs`: outputs of steps at the end; `flow_outputs`: those of the flow
- `at_once`: largest number of jobs that exist at the same time
- `commands`: command lines after `jobflow`, each run when the flow waits for it. They begin with a
  condition `STEP REASON:` that the step has to reach first
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from support.paths import ROOT

FOLDER = ROOT / "tests" / "patterns"
KINDS_ORDER = ("JobTemplate", "JobFlow")


@dataclass(frozen=True)
class Pattern:
    """The expectations in the header of a file, and its manifests."""

    path: Path
    peer: str
    says: str
    steps: Mapping[str, str]
    """Phase, with the reason behind it if there is one, by step."""
    lines: int | None = None
    phase: str = "Succeed"
    order: Sequence[str] = ()
    jobs: Mapping[str, int] = field(default_factory=dict)
    outputs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    flow_outputs: Mapping[str, Any] | None = None
    at_once: int | None = None
    commands: Sequence[str] = ()

    @property
    def name(self) -> str:
        """Engine and name, such as `argo/dag-diamond`."""
        return f"{self.path.parent.name}/{self.path.stem}"

    @property
    def namespace(self) -> str:
        """Namespace in which the pattern runs."""
        return self.name.replace("/", "-")

    @cached_property
    def manifests(self) -> list[dict[str, Any]]:
        """The manifests, templates first."""
        found = [each for each in yaml.safe_load_all(self.path.read_text()) if each]
        return sorted(found, key=lambda each: KINDS_ORDER.index(each["kind"]))

    @property
    def flow(self) -> str:
        """Name of the flow."""
        [name] = (each["metadata"]["name"] for each in self.manifests if each["kind"] == "JobFlow")
        return str(name)

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Yield (before, after) of neighbouring groups of `order`."""
        for chain in self.order:
            groups = [group.split() for group in chain.split("<")]
            for before, after in zip(groups, groups[1:], strict=False):
                yield from ((first, then) for first in before for then in after)


def read_pattern(path: Path) -> Pattern:
    """Return the pattern of a file."""
    comment = re.match(r"(?:#.*\n)+", path.read_text())
    assert comment is not None, f"{path} has no header"
    header = yaml.safe_load("\n".join(line[2:] for line in comment[0].splitlines()))
    by_phase = header.pop("steps")
    steps = {name: phase for phase, names in by_phase.items() for name in names.split()}
    return Pattern(path, steps=steps, **header)


def patterns() -> list[Pattern]:
    """Return all patterns, by engine and name."""
    return [read_pattern(path) for path in sorted(FOLDER.glob("*/*.yaml"))]


def count_lines(text: str) -> int:
    """Return the lines of YAML below `metadata`, without comments and empty lines."""
    count, in_metadata = 0, False
    for line in text.splitlines():
        if not line.strip() or line.lstrip().startswith("#") or line.strip() == "---":
            continue
        if not line.startswith((" ", "-")):
            in_metadata = line.startswith("metadata:")
        count += not in_metadata
    return count
