"""No key of an Argo manifest is dropped in silence: it has an effect, or a finding names it."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from jobflow.client.manifests.objects import Manifest, Manifests
from jobflow.client.manifests.sources import Source
from jobflow.client.manifests.yaml_nodes import MappingNode, documents
from jobflow.migrate.report import convert_argo
from support.argo.migrated import dag, echo, inputs, parameters, shell, step, steps, workflow
from support.sandbox.command_line import jobflow

CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


def rich_workflow() -> dict[str, Any]:
    """Return a workflow with many fields."""
    retry = {"limit": 2, "backoff": {"duration": "1s", "factor": 2}}
    server = shell("server", daemon=True, retryStrategy=retry)
    code = shell("code", inputs=inputs("x"))
    code["outputs"] = {"parameters": [{"name": "o", "valueFrom": {"path": "/o"}}]}
    tasks = [
        step("a", "code", arguments=parameters(x="1"), continueOn={"failed": True}),
        step(
            "b", "code", arguments=parameters(x="{{item}}"), depends="a", withSequence={"count": 2}
        ),
        step("c", "server", depends="b", when="1 == 1"),
        step("d", "wait", depends="c", hooks={"exit": {"template": "echo"}}),
    ]
    main = dag("main", *tasks)
    wait = {"name": "wait", "suspend": {"duration": "1s"}}
    bye = steps("bye", [step("z")])
    rest = {
        "arguments": parameters(p="1"),
        "ttlStrategy": {"secondsAfterCompletion": 1},
        "synchronization": {"mutexes": [{"name": "m"}]},
        "onExit": "bye",
        "podGC": {"strategy": "OnPodSuccess"},
        "volumeClaimTemplates": [{"metadata": {"name": "v"}, "spec": CLAIM}],
    }
    return workflow(main, server, code, wait, bye, echo(), **rest)


def maps(value: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(value, dict):
        yield path, value
        for key, each in value.items():
            yield from maps(each, f"{path}.{key}")
    elif isinstance(value, list):
        for i, each in enumerate(value):
            yield from maps(each, f"{path}[{i}]")


def manifest_at(text: str) -> Manifest:
    [node] = documents(text)
    assert isinstance(node, MappingNode)
    return Manifest(Source("workflow.yaml", text), node)


def test_an_unknown_key_is_named_or_written() -> None:
    manifest = copy.deepcopy(rich_workflow())
    places = [*maps(manifest)]
    for number, (_, found) in enumerate(places):
        found[f"unknown{number}"] = {"deep": ["x"]}
    text = yaml.safe_dump(manifest, sort_keys=False)
    answer = jobflow("migrate", "-", stdin=text)
    assert len(places) > 40
    lines = {word.strip(): i for i, word in enumerate(text.replace(":", "").splitlines(), 1)}
    for number, (path, _) in enumerate(places):
        key = f"unknown{number}"
        written = f"{key}:" in answer.out
        assert written or f"<stdin>:{lines[key]}:" in answer.err, (path, answer.err)


def test_the_workflow_itself_has_no_gap() -> None:
    answer = jobflow("migrate", "-", stdin=yaml.safe_dump(rich_workflow(), sort_keys=False))
    assert (answer.code, ": error: " in answer.err) == (0, False), answer.err


@pytest.mark.long
@pytest.mark.parametrize("value", ["{{=(", 3, [["x"]], {"name": None}], ids=str)
def test_a_value_of_a_wrong_type_does_not_raise(value: Any) -> None:
    keys = [(path, key) for path, found in maps(rich_workflow()) for key in found]
    for path, key in keys:
        manifest = copy.deepcopy(rich_workflow())
        dict(maps(manifest))[path][key] = value
        text = yaml.safe_dump(manifest, sort_keys=False)
        convert_argo(Manifests(objects=[manifest_at(text)]))
