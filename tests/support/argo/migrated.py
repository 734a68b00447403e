"""Small workflows of Argo, and what `jobflow migrate` makes of them."""

import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import yaml

from support.sandbox.command_line import Result, jobflow

ECHO = {"container": {"image": "busybox", "command": ["echo"], "args": ["hello"]}}


@dataclass(frozen=True)
class Migrated:
    """The answer of the command."""

    manifests: str
    text: Result

    @cached_property
    def report(self) -> Result:
        """The answer with `-o json`."""
        found = jobflow("migrate", "-o", "json", "-", stdin=self.manifests)
        assert found.code == self.text.code
        return found

    @cached_property
    def flow(self) -> dict[str, Any]:
        """The only object."""
        [found] = yaml.safe_load_all(self.text.out)
        return dict(found)

    @property
    def spec(self) -> Any:
        return self.flow["spec"]

    def step(self, name: str) -> dict[str, Any]:
        """Return a step of `flows` or `finally`."""
        steps = (*self.spec["flows"], *self.spec.get("finally", ()))
        return dict(next(each for each in steps if each["name"] == name))

    def found(self, severity: str = "error") -> list[tuple[str, str]]:
        """Return path and message of each finding."""
        return [
            (each["path"], each["message"])
            for each in json.loads(self.report.out)
            if each["severity"] == severity
        ]


def migrate(*objects: dict[str, Any]) -> Migrated:
    """Migrate objects; the result is checked by lint if everything has an equal."""
    text = yaml.safe_dump_all(objects, sort_keys=False)
    found = Migrated(text, jobflow("migrate", "-", stdin=text))
    if found.text.code == 0:
        answer = jobflow("lint", "-", stdin=found.text.out)
        assert answer.code == 0, answer.out
    return found


def workflow(*templates: dict[str, Any], kind: str = "Workflow", **spec: Any) -> dict[str, Any]:
    """Return a workflow whose entrypoint is its first template."""
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": kind,
        "metadata": {"name": "flow"},
        "spec": {"entrypoint": templates[0]["name"], **spec, "templates": [*templates]},
    }


def parameters(**values: Any) -> dict[str, Any]:
    """Return parameters with values."""
    return {"parameters": [{"name": name, "value": value} for name, value in values.items()]}


def inputs(*names: str) -> dict[str, Any]:
    """Return parameters without values."""
    return {"parameters": [{"name": name} for name in names]}


def steps(name: str, *groups: list[dict[str, Any]], **rest: Any) -> dict[str, Any]:
    """Return a steps template."""
    return {"name": name, **rest, "steps": [*groups]}


def dag(name: str, *tasks: dict[str, Any], **rest: Any) -> dict[str, Any]:
    """Return a dag template."""
    return {"name": name, "dag": {"tasks": [*tasks], **rest}}


def step(name: str, template: str = "echo", **rest: Any) -> dict[str, Any]:
    """Return a step or task that calls a template."""
    return {"name": name, "template": template, **rest}


def shell(name: str, script: str = "echo hello", **rest: Any) -> dict[str, Any]:
    """Return a template with a shell script."""
    container = {"image": "alpine", "command": ["sh", "-c"], "args": [script]}
    return {"name": name, **rest, "container": container}


def echo(name: str = "echo", **rest: Any) -> dict[str, Any]:
    """Return a template that prints its parameter `message`, or hello."""
    text = "{{inputs.parameters.message}}" if "inputs" in rest else "hello"
    return {"name": name, **rest, "container": {**ECHO["container"], "args": [text]}}
