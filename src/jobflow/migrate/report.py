"""The answer of `jobflow migrate` about objects of Argo: findings, and YAML with comments."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rich.console import Console

from jobflow.client.manifests.check import check
from jobflow.client.manifests.objects import Manifest, Manifests
from jobflow.client.manifests.sources import ManifestFault, Source
from jobflow.client.manifests.write_yaml import yaml_text
from jobflow.client.manifests.yaml_nodes import MappingNode, documents
from jobflow.core.text import printable
from jobflow.core.violations import MAX_SHOWN
from jobflow.display.report import first_of_each_file, print_finding
from jobflow.migrate.convert import Converted, convert
from jobflow.migrate.fields import Finding, Severity
from jobflow.migrate.steps.task import COMMENT


@dataclass(slots=True)
class ArgoReport:
    """Converted objects, in the order of the files, with findings and faults of the result."""

    converted: list[Converted]
    faults: list[ManifestFault] = field(default_factory=list)
    """Faults that lint finds in the result, at their places in Argo's files."""
    texts: dict[int, str] = field(default_factory=dict)
    """The YAML of the objects, by the identity of the manifest of Argo."""

    @property
    def findings(self) -> list[tuple[Converted, Finding]]:
        return [(each, found) for each in self.converted for found in each.findings.listed]

    @property
    def is_complete(self) -> bool:
        """Whether everything has an equal, and lint accepts the result."""
        return not self.faults and all(f.severity is not Severity.GAP for _, f in self.findings)

    def as_json(self) -> list[dict[str, object]]:
        """Return all findings and faults, as `jobflow lint -o json` does, with their severity."""
        found: list[dict[str, object]] = [
            {
                "severity": each.severity.value,
                "file": each.place.source.name,
                "line": each.place.line,
                "column": each.place.column,
                "kind": str(converted.manifest.kind),
                "name": printable(converted.manifest.name or converted.manifest.generate_name),
                "path": each.path,
                "reason": "NoEqual" if each.severity is Severity.GAP else "",
                "message": each.message,
            }
            for converted, each in self.findings
        ]
        return found + [{"severity": "error"} | fault.as_json() for fault in self.faults]

    def print(self, console: Console) -> None:
        shown, others = first_of_each_file([found for _, found in self.findings], MAX_SHOWN)
        for found in shown:
            sentence = f"{found.path}: {found.message}" if found.path else found.message
            print_finding(found.place, found.severity.value, sentence, console)
        of_result, more = first_of_each_file(self.faults, MAX_SHOWN, "fault of the result")
        for fault in of_result:
            sentence = f"in the result: {fault.sentence}"
            print_finding(fault.place, "error", sentence, console)
        for sentence in (*others, *more):
            console.print(f"{sentence}; with -o json, all are printed", soft_wrap=True)


def convert_argo(manifests: Manifests) -> ArgoReport:
    report = ArgoReport(convert(manifests.objects))
    for each in report.converted:
        texts = []
        for obj in each.objects:
            text = to_yaml(obj)
            texts.append(text)
            node = next(iter(documents(text)))
            assert isinstance(node, MappingNode), "an object is written"
            source = Source(each.manifest.source.name, text)
            found = check(Manifests([source], [Manifest(source, node)]))
            # Faults that lint finds in the result are shown at their place in Argo's file.
            report.faults += (
                replace(fault, place=each.place_of(fault.path, obj)) for fault in found.faults
            )
        report.texts[id(each.manifest)] = "---\n".join(texts)
    return report


# With the indent of the key after it, which begins the item of a list in its place.
_MARK = re.compile(
    rf"^(?P<indent> *)(?P<dash>- )?{COMMENT}: (?P<number>\d+)\n(?(dash) +)", re.MULTILINE
)


def to_yaml(obj: Mapping[str, Any]) -> str:
    """Return an object as YAML. The sentences of a step become comments above it."""
    # The writer of YAML has no comments: each is the number of a key first, then a line.
    comments: list[Sequence[str]] = []

    def lines(mark: re.Match[str]) -> str:
        sentences = (" ".join(each.split()) for each in comments[int(mark["number"])])
        written = "".join(f"{mark['indent']}# TODO: {each}\n" for each in sentences)
        return f"{written}{mark['indent']}- " if mark["dash"] else written

    return _MARK.sub(lines, yaml_text(_numbered(obj, comments), compact=True))


def _numbered(value: Any, comments: list[Sequence[str]]) -> Any:
    """Return a value with numbers for the sentences of its steps, which are added to a list."""
    if isinstance(value, list):
        return [_numbered(each, comments) for each in value]
    if not isinstance(value, dict):
        return value
    if COMMENT in value:
        comments.append(value[COMMENT])
        value = value | {COMMENT: len(comments) - 1}
    return {key: _numbered(each, comments) for key, each in value.items()}
