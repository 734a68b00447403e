"""Our types with more fields. As a program it reads specs of flows by name as JSON, and prints what
becomes of the fields; it imports these types in place of ours first."""

import json
import sys
from importlib.abc import InspectLoader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from runpy import run_path
from typing import Any

from support.paths import ROOT

OF_STEPS = """
    working_dir: Annotated[str | None, JobPart(Role.ARGUMENT), OF_JOBS] = None
    '''Folder.'''
    skip_when: Annotated[str | None, Evaluated(Stage.DECISION)] = None
    '''Condition.'''
    lives: Annotated[
        Annotated[int | str, Setting()] | None, NotWith({"retry": "excludes {}: remove one"})
    ] = None
    '''Number.'''
    note: Annotated[str | None, Referring(Stage.QUESTION), EVERY_KIND] = None
    '''Text.'''
    unjudged: bool | None = None
    '''Without traits.'''

"""
OF_RETRIES = """
    because: Annotated[str | None, Required("say why")] = None
    '''Text.'''
"""
OF_FLOWS = """
    owner: str | None = None
    '''Text.'''
    team: Annotated[str | None, InChild(inherited=True)] = None
    '''Text.'''

"""
TRAITS = "\nfrom jobflow.api.flow.traits import *\n"


class _Sources(MetaPathFinder, InspectLoader):
    """Imports modules from sources in place of their files."""

    def __init__(self, sources: dict[str, str]) -> None:
        self.sources = sources

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        return spec_from_loader(name, self) if name in self.sources else None

    def get_source(self, name: str) -> str:
        return self.sources[name]


def main() -> None:
    """Print the faults of the flows, and what is made of the one that is named `sound`."""
    flows = json.load(sys.stdin)
    sources = {
        "jobflow.api.flow.control": _with("control", "    avoid_nodes: ", OF_RETRIES),
        "jobflow.api.flow.step": _with("step", "    def template_for(", OF_STEPS),
        "jobflow.api.flow.jobflow": _with("jobflow", "    @property\n    def all_steps(", OF_FLOWS),
    }
    sys.meta_path.insert(0, _Sources(sources))
    tool = run_path(str(ROOT / "tools" / "authoring_types.py"))
    sources["jobflow.authoring.objects.fields"] = tool["classes"]()
    made = {"faults": {name: _faults(flow) for name, flow in flows.items()}}
    json.dump(made | _made(flows["sound"]), sys.stdout)


def _with(module: str, before: str, fields: str) -> str:
    """Return the source of a module of the API with more fields before a line."""
    text = (ROOT / "src" / "jobflow" / "api" / "flow" / f"{module}.py").read_text()
    head, marked, rest = text.partition(before)
    head = head.replace("\nfrom ", f"{TRAITS}from ", 1)
    return head + fields + marked + rest


def _manifest(spec: dict[str, Any]) -> str:
    head = {"apiVersion": "flow.volcano.sh/v1alpha1", "kind": "JobFlow"}
    return json.dumps({**head, "metadata": {"name": "f"}, "spec": spec})


def _faults(spec: dict[str, Any]) -> list[str]:
    from support.sandbox.command_line import jobflow

    answer = jobflow("lint", "-o", "json", "-", stdin=_manifest(spec))
    return [f"{each['path']}: {each['message']}" for each in answer.json]


def _made(spec: dict[str, Any]) -> dict[str, Any]:
    import msgspec
    import yaml

    from jobflow.api.crd import crd
    from jobflow.api.flow.jobflow import JobFlow
    from jobflow.authoring import Flow
    from jobflow.core.cel.scope import EvaluationScope
    from jobflow.core.manifests.job import Attempt, build_job
    from jobflow.core.spec.expressions import find_needed_outputs
    from jobflow.core.spec.param_values import with_param_values
    from support.sandbox.command_line import jobflow

    flow: Any = msgspec.json.decode(_manifest(spec), type=JobFlow)
    seen = EvaluationScope(flow, lambda name: None)
    fields: dict[str, Any] = {"params": {"dir": "/x", "n": 3}, "team": "t"}
    written: Any = Flow("f", **fields)
    param = written.params
    written.step("a", image="i", working_dir=param.dir, skip_when=param.n > 1, lives=param.n)
    (version,) = crd("JobFlow")["spec"]["versions"]
    schema = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    resolved: Any = with_param_values(flow)
    return {
        "job": build_job(flow, flow.steps[1], None, Attempt("f-b", seen=seen)),
        "lives": resolved.steps[1].lives,
        "needed": sorted(find_needed_outputs(flow.spec)),
        "python": yaml.safe_load(written.yaml()),
        "converted": jobflow("convert", "-o", "python", "-", stdin=_manifest(spec)).out,
        "schema": sorted(schema["flows"]["items"]["properties"]),
    }


if __name__ == "__main__":
    main()
