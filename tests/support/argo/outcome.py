"""One example of Argo: converted, checked by lint, and run in virtual time."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from io import BytesIO
from typing import Any

import msgspec

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.labels import SANDBOX_PREFIX
from jobflow.client.manifests.objects import load
from jobflow.migrate.fields import Severity
from jobflow.migrate.report import ArgoReport, convert_argo
from jobflow.migrate.steps.task import COMMENT
from jobflow.sandbox.virtual_time.planned_flows import VirtualCluster
from support.argo.examples import Example

_FAILS = re.compile(r"(?:^|[\s;&'\"])(?:sys\.)?exit ?\(?[1-9]|^false$", re.MULTILINE)
_SLEEPS = re.compile(r"\bsleep (\d+)([smhd]?)\b")
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_USED = re.compile(
    r"steps(?:\[\"(?P<a>[^\"]+)\"\]|\.(?P<b>[\w.-]+?))"
    r"(?P<items>\.items\.filter\(i, [^()]*\)\.map\(i, (?:json\()?get\(i)?"
    r"\.outputs(?:, \"(?P<c>\w+)\"|\.(?P<d>\w+))(?P<test> == \"(?P<value>[^\"]*)\")?"
)
_DEFAULT = "10"
"""The value of an output that nothing is compared with. Counters reach their limits with it."""
_SAMPLES = {
    "parameter-aggregation-script.yaml": '{"num": 1, "evenness": "even"}',
    "pod-spec-from-previous-step.yaml": '{"memory": "1Gi"}',
}
"""Other values, by the name of the example."""
FAIL = frozenset(
    {
        "dag-continue-on-fail.yaml",
        "dag-disable-failFast.yaml",
        "dag-task-level-timeout.yaml",
        "exit-handlers.yaml",
        "pod-gc-strategy.yaml",
        "timeouts-step.yaml",
        "timeouts-workflow.yaml",
    }
)
"""Examples that fail in Argo too, because a container fails or exceeds a limit of time."""


@dataclass
class Outcome:
    """What became of an example."""

    example: Example
    gaps: list[tuple[int, str, str]] = field(default_factory=list)
    """Line, path and message of what has no equal."""
    faults: list[str] = field(default_factory=list)
    """Faults of the result."""
    checks: list[str] = field(default_factory=list)
    ends: dict[str, str] = field(default_factory=dict)
    """Phase of each flow, or `endless`."""

    @property
    def is_whole(self) -> bool:
        return not self.gaps

    @property
    def is_clean(self) -> bool:
        """Whether lint has no faults."""
        return not self.faults

    @property
    def runs(self) -> bool:
        """Whether it is converted as a whole, and each flow ends as Argo's workflow does."""
        phase = "Failed" if self.example.name in FAIL else "Succeed"
        return self.is_whole and self.is_clean and {*self.ends.values()} <= {phase}


def convert_example(example: Example) -> ArgoReport:
    """Convert a file together with those that it needs."""
    files = [str(example.path), *map(str, example.others)]
    return convert_argo(load(files, BytesIO()))


def try_example(example: Example) -> Outcome:
    """Convert, check and run an example."""
    report = convert_example(example)
    outcome = Outcome(example)
    name = str(example.path)
    own = [each for each in report.converted if each.manifest.source.name == name]
    for each in own:
        for found in each.findings.listed:
            if found.severity is Severity.GAP:
                outcome.gaps.append((found.place.line, found.path, found.message))
            elif found.severity is Severity.CHECK:
                outcome.checks.append(found.message)
    outcome.faults = [each.sentence for each in report.faults if each.place.source.name == name]
    if outcome.is_clean:
        for obj in (_without_comments(obj) for each in own for obj in each.objects):
            key = f"{obj['kind']}/{_name(obj)}"
            outcome.ends[key] = _end(_flow(obj), _SAMPLES.get(example.name, _DEFAULT))
    return outcome


def _without_comments(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_comments(each) for key, each in value.items() if key != COMMENT}
    return [_without_comments(each) for each in value] if isinstance(value, list) else value


def _name(obj: Mapping[str, Any]) -> str:
    metadata = obj["metadata"]
    return str(metadata.get("name") or metadata["generateName"] + "x")


def _flow(obj: Mapping[str, Any]) -> JobFlow:
    spec = obj["spec"]
    metadata: dict[str, Any] = {"namespace": "default", "name": _name(obj)}
    if obj["kind"] == "CronJobFlow":
        spec = spec["jobFlowTemplate"]["spec"]
        metadata["annotations"] = {"flow.volcano.sh/scheduled-time": "2026-01-01T00:00:00Z"}
    spec = {key: value for key, value in spec.items() if not key.startswith("ttl")}
    head = {"apiVersion": "flow.volcano.sh/v1alpha1", "kind": "JobFlow"}
    return msgspec.convert(
        head | {"metadata": metadata, "spec": spec | {"suspend": False}}, JobFlow
    )


def _end(flow: JobFlow, sample: str) -> str:
    """Run a flow and return its phase. `sample` is the value of outputs of any kind."""
    spec = msgspec.to_builtins(flow.spec)
    outputs, failing, seconds = _outputs(spec, sample), {*_failing(spec)}, dict(_seconds(spec))

    def annotate(step: str, own: Mapping[str, str]) -> Mapping[str, str]:
        added = {f"{SANDBOX_PREFIX}duration": f"{seconds.get(step, 1)}s"}
        if step in outputs:
            added[f"{SANDBOX_PREFIX}output"] = json.dumps([json.dumps(outputs[step])])
        if step in failing:
            added[f"{SANDBOX_PREFIX}exit-code"] = "1"
        return {**own, **added}

    cluster = VirtualCluster(
        datetime(2026, 1, 1, tzinfo=UTC),
        annotate=annotate,
        approve_after=lambda step: timedelta(seconds=1),
    )
    cluster.add(flow, ())
    cluster.run()
    state = cluster.flows[0].status.state
    return str(state.phase) if cluster.flows[0].final else f"endless: {state.phase}"


def _outputs(spec: object, sample: str) -> dict[str, Any]:
    """Return outputs for the steps of which others use some: what they are compared with."""
    found: dict[str, dict[str, Any]] = {}
    for text in _texts(spec):
        for used in _USED.finditer(text):
            name, key = used["a"] or used["b"], used["c"] or used["d"]
            values = found.setdefault(name, {})
            if key == "items" and not used["items"]:
                values[key] = [{"num": "1", "evenness": "even"}]
            elif used["test"] or key not in values:
                is_list = "json(steps" in text and sample == _DEFAULT
                values.setdefault(key, used["value"] or ("[1, 2]" if is_list else sample))
                if used["value"] and values[key] == sample:
                    values[key] = used["value"]
    return {
        name: values["items"] if "items" in values else values for name, values in found.items()
    }


def _programs(spec: object) -> Iterator[tuple[str, str]]:
    """Yield the names of steps with the texts of their commands."""
    if isinstance(spec, dict):
        container = spec.get("container")
        if "name" in spec and isinstance(container, dict):
            command = (*container.get("command", ()), *container.get("args", ()))
            yield spec["name"], " ".join(map(str, command))
        for each in spec.values():
            yield from _programs(each)
    elif isinstance(spec, list):
        for each in spec:
            yield from _programs(each)


def _failing(spec: object) -> Iterator[str]:
    """Yield the names of the steps whose containers always fail."""
    for name, text in _programs(spec):
        if _FAILS.search(text) and "random" not in text and "if" not in text.split():
            yield name


def _seconds(spec: object) -> Iterator[tuple[str, int]]:
    """Yield the names of the steps that sleep, with the time."""
    for name, text in _programs(spec):
        if found := _SLEEPS.search(text):
            yield name, int(found[1]) * _UNITS[found[2]]


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)
