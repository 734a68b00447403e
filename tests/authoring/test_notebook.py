"""Flows in a notebook: IPython is imported already, and shows what `_repr_html_` returns."""

import asyncio
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from jobflow.api.resources import JOBFLOWS
from jobflow.authoring import ChildFlow, CronFlow, Flow, Result, get
from jobflow.display.notebook import notebook_display, table_html
from support.plan.flow_statuses import DIAMOND, with_conditions
from support.sandbox.running_controller import Cluster, cluster, flow, template

pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # TLS that closes slowly
]


@dataclass
class Cell:
    """The output of a cell: its displays, each with its states."""

    displays: list[list[dict[str, str]]] = field(default_factory=list)

    def display(self, data: dict[str, str], *, raw: bool, display_id: bool) -> Any:
        assert raw and display_id
        states = [data]
        self.displays.append(states)
        return SimpleNamespace(update=lambda data, raw: states.append(data))


@pytest.fixture
def cell(monkeypatch: pytest.MonkeyPatch) -> Cell:
    """Provide a cell of a notebook."""
    cell = Cell()
    shell = SimpleNamespace(kernel=None)
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=cell.display))
    return cell


@pytest.fixture
async def world() -> AsyncIterator[Cluster]:
    async with cluster() as world:
        yield world


def test_there_is_no_notebook_without_a_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    assert notebook_display() is None
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: None))
    assert notebook_display() is None
    assert "IPython.display" not in sys.modules


@pytest.mark.parametrize("kind", ["flow", "schedule"])
def test_a_flow_shows_its_graph(kind: str) -> None:
    made = Flow("f")
    fetch = made.step("fetch", image="busybox")
    child = ChildFlow()
    child.step("fit", image="busybox")
    fetch >> made.step("site", flow=child)
    html = (CronFlow("c", "@daily", made) if kind == "schedule" else made)._repr_html_()
    assert html.count("<svg") == 1
    assert [name in html for name in (">fetch<", ">site<", ">fit<")] == [True] * 3


def test_a_flow_that_cannot_be_drawn_shows_its_faults() -> None:
    made = Flow("f")
    made.step("b", image="busybox", for_each={"items": "<i>"})  # type: ignore[arg-type]
    html = made._repr_html_()
    assert html.startswith("<pre>") and "b.forEach.items" in html
    assert "&lt;i&gt;" in html and "<i>" not in html
    made = Flow("f")
    a, b = (made.step(name, image="busybox") for name in "ab")
    a >> b >> a
    html = made._repr_html_()
    assert html.startswith("<pre>") and "a -&gt; b -&gt; a; remove one" in html


def test_a_result_shows_a_table() -> None:
    found = with_conditions(
        DIAMOND,
        a={"phase": "Failed", "reason": "JobFailed", "message": "<script>alert(1)</script>"},
        b={"outputs": {"text": "<i>"}},
    )
    html = Result(found)._repr_html_()
    assert html == table_html(found)
    assert html.count("<tr>") == 6
    assert "JobFailed: &lt;script&gt;alert(1)&lt;/script&gt;" in html
    assert "text=&lt;i&gt;" in html
    assert "<script>" not in html and "<i>" not in html


def test_a_run_has_one_display_that_changes(
    cell: Cell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    made = Flow("f")

    @made.task()
    def fail() -> None:
        print("<b>begun</b>")
        raise ValueError("no luck")

    fail()
    result = made.run()
    [states] = cell.displays
    first, last = states[1], states[-1]
    assert first["text/plain"] != last["text/plain"]
    assert last["text/plain"].startswith("f  Failed  1/1")
    assert "│ <b>begun</b>" in last["text/plain"]
    assert "&lt;b&gt;begun&lt;/b&gt;" in last["text/html"] and "<b>" not in last["text/html"]
    assert "<table>" in result._repr_html_()
    assert capsys.readouterr().out == ""


def test_a_silent_run_has_no_display(cell: Cell) -> None:
    made = Flow("f")
    made.step("a", image="busybox")
    made.run(show=False)
    assert cell.displays == []


async def test_a_handle_shows_its_flow_and_how_it_ends(
    cell: Cell, world: Cluster, tmp_path: Path
) -> None:
    world.server.write_kubeconfig(path := tmp_path / "kubeconfig")
    child = flow("f", {})
    child["spec"]["flows"] = [{"name": "site", "flow": {"flows": [{"name": "a"}]}}]
    await world.apply(template("a"), child)
    run = await asyncio.to_thread(lambda: get("f", kubeconfig=str(path)))
    assert "<td" in await asyncio.to_thread(run._repr_html_)
    async with world.controller(), world.ends():
        result = await run
    [states] = cell.displays
    lines = states[-1]["text/plain"].splitlines()
    assert result.succeeded and lines[0].startswith("f  Succeed  1/1")
    assert [line.split()[2] for line in lines[1:]] == ["site", "a"]
    await world.client.delete(JOBFLOWS, "default", "f", uid=run.uid)
    gone = await asyncio.to_thread(run._repr_html_)
    assert gone.startswith("<pre>JobFlow &quot;f&quot; does not exist")
