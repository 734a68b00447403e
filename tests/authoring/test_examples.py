"""The examples in Python: they run, and end with success. The cells of the notebook run in order
and beside an event loop, with sources that only linecache has, as in Jupyter."""

import ast
import inspect
import json
import linecache
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jobflow.authoring import Flow
from support.paths import ROOT

EXAMPLES = ROOT / "examples" / "python"
pytestmark = pytest.mark.timeout(120)


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "last_line"),
    [("training_pipeline", "y = "), ("hyperparameter_search", "0.009 -> 0.000 (tried 0.009,")],
)
def test_an_example_runs(name: str, last_line: str, tmp_path: Path) -> None:
    command = [sys.executable, str(EXAMPLES / f"{name}.py")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1].startswith(last_line)


@pytest.mark.long
def test_the_training_pipeline_prints_yaml() -> None:
    command = [sys.executable, str(EXAMPLES / "training_pipeline.py"), "yaml"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("apiVersion: flow.volcano.sh/v1alpha1\nkind: JobFlow\n")


@pytest.mark.long
async def test_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    notebook = json.loads((EXAMPLES / "notebook.ipynb").read_text())
    sources = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    printed: list[str] = []
    names: dict[str, Any] = {
        "__name__": "__main__",
        "print": lambda value: printed.append(str(value)),
    }
    values = [await run_cell(source, number, names) for number, source in enumerate(sources)]
    assert "best rate 0.1" in values[-3]
    assert str(values[-4]).count("Completed") == 2
    assert [line.partition(": ")[0] for line in printed[0].splitlines()[1::3]] == [
        "<cell 5>:1",
        "<cell 5>:2",
        "<cell 5>:2",
    ]
    assert isinstance(names["flow"], Flow)


async def run_cell(source: str, number: int, names: dict[str, Any]) -> Any:
    """Run a cell and return the value of its last expression."""
    file = f"/nowhere/ipykernel/{number}.py"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    module = ast.parse(source)
    last = module.body.pop() if isinstance(module.body[-1], ast.Expr) else None
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    made = eval(compile(module, file, "exec", flags=flags), names)
    if inspect.isawaitable(made):
        await made
    if last is None:
        return None
    return eval(compile(ast.Expression(last.value), file, "eval"), names)  # type: ignore[attr-defined]
