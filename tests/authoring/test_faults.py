"""Faults of flows in Python: all at once, each with the file and line that made it."""

import linecache
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

from jobflow.authoring import ChildFlow, CronFlow, Fault, Flow, InvalidFlow
from jobflow.authoring.objects.faults import display_name

HEAD = "from jobflow.authoring import *\n"


@pytest.fixture
def faults(tmp_path: Path) -> Callable[[str], list[Fault]]:
    """Provide the faults of a file, which calls `lint`. The source begins on line 2."""

    def find(source: str) -> list[Fault]:
        path = tmp_path / "flow.py"
        path.write_text(HEAD + source)
        linecache.checkcache(str(path))
        with pytest.raises(InvalidFlow) as error:
            exec(compile(path.read_text(), str(path), "exec"), {"__name__": "flow"})
        shown = str(error.value).splitlines()
        assert sum(line.startswith(f"{path}:") for line in shown) == len(error.value.faults)
        return error.value.faults

    return find


def test_all_faults_are_reported_with_their_lines(faults: Callable[[str], list[Fault]]) -> None:
    found = faults(
        """\
flow = Flow("f",
            parallelism=0)
a = flow.step(
    "a", image="x", retry=Retry(
        limit=101),
    when="params.x",
    imge="y",
)
b = flow.step("b", image="y", env={"X": {1}})
a >> b
b >> a
flow.lint()
"""
    )
    assert [(each.line, each.path) for each in found] == [
        (3, "spec.parallelism"),
        (5, "spec.flows[0].retry.limit"),
        (7, "spec.flows[0].when"),
        (8, "spec.flows[0].imge"),
        (10, "spec.flows[1].env.X"),
        (12, "spec.flows[0].dependsOn.targets[0]"),
    ]
    messages = [each.message for each in found]
    assert messages[1] == "Invalid value: 101: a number of further attempts from 0 to 100"
    assert messages[3] == 'there is no field imge; did you mean "image"?'
    assert messages[4] == "a set is no value of JSON: {1}"
    assert "these steps wait for each other: a -> b -> a" in messages[5]


def test_a_wrong_keyword_is_marked_by_its_name(faults: Callable[[str], list[Fault]]) -> None:
    found = faults(
        """\
flow = Flow("f", paralelism=2)
@flow.task(retires=2)
def work() -> None: ...
work()
flow.step("a", image="x", with_items=[1], on_exit="b", foo=3)
CronFlow("c", "@daily", flow, timezone="Asia/Tokyo").lint()
"""
    )
    source = linecache.getlines(found[0].place.file)
    marked = [source[at.line - 1][at.column - 1 :][: at.width] for at in (f.place for f in found)]
    assert [(name, each.message) for name, each in zip(marked, found, strict=True)] == [
        ("paralelism", 'there is no field paralelism; did you mean "parallelism"?'),
        ("retires", "there is no field retires; here that is retry"),
        ("with_items", "there is no field with_items; here that is for_each"),
        ("on_exit", "there is no field on_exit; here that is spec.finally"),
        ("foo", "there is no field foo"),
        ("timezone", 'there is no field timezone; did you mean "time_zone"?'),
    ]


@pytest.mark.parametrize("checked", ["flow", 'CronFlow("c", "@daily", flow)'])
def test_a_flow_without_a_step_names_the_tasks_that_are_not_called(
    faults: Callable[[str], list[Fault]], checked: str
) -> None:
    source = f'flow = Flow("f")\n@flow.task()\ndef train() -> None: ...\n{checked}.lint()\n'
    [fault] = faults(source)
    assert (fault.line, fault.message) == (
        3, "train is never called, so no step runs it: train(...)")  # fmt: skip


def test_the_message_shows_the_lines(faults: Callable[[str], list[Fault]]) -> None:
    [fault] = faults('flow = Flow("f", timeout="soon")\nflow.step("a", image="x")\nflow.yaml()\n')
    assert str(InvalidFlow([fault])).splitlines()[2:] == [
        '    2 | flow = Flow("f", timeout="soon")',
        "      |                          ^^^^^^",
    ]


def test_faults_of_helpers_have_the_line_of_the_call(
    faults: Callable[[str], list[Fault]],
) -> None:
    [fault] = faults(
        """\
flow = Flow("f")
def retried(name, **fields):
    return flow.step(name, image="x", **fields)
retried("a", timeout="-1s")
flow.lint()
"""
    )
    assert (fault.line, fault.path) == (4, "spec.flows[0].timeout")


def test_faults_of_templates_and_children(faults: Callable[[str], list[Fault]]) -> None:
    found = faults(
        """\
flow = Flow("f")
template = Template("t", JobSpec(min_available=2, tasks=[]))
child = ChildFlow()
child.step("c", image="x", timeout="soon")
flow.step("a", template=template)
flow.step("b", flow=child)
flow.lint()
"""
    )
    assert [(each.line, each.kind, each.path) for each in found] == [
        (3, "JobTemplate", "spec.tasks"),
        (5, "JobFlow", "spec.flows[1].flow.flows[0].timeout"),
    ]


def test_values_of_the_run_stand_only_where_the_api_has_them(
    faults: Callable[[str], list[Fault]],
) -> None:
    found = faults(
        """\
flow = Flow("f", params={"n": 1})
a = flow.step("a", image="x", timeout=flow.params.n + 1)
b = flow.step("b", approval=Approval(message=flow.params.n + 1, default=flow.params.n))
flow.step("c", image="x", env={"X": a})
flow.step("d", image="x", for_each=ForEach(items=[flow.params.n]))
flow.lint()
"""
    )
    assert [(each.line, each.path) for each in found if "when the flow runs" in each.message] == [
        (3, "spec.flows[0].timeout"),
        (4, "spec.flows[1].approval.message"),
        (4, "spec.flows[1].approval.default"),
        (6, "spec.flows[3].forEach.items[0]"),
    ]
    assert "a Step is no value of JSON: write a.outputs.NAME, or a.result" in [
        each.message for each in found
    ]


def test_lenient_makes_warnings_of_what_admission_accepts() -> None:
    flow = Flow("f")
    flow.step("a", container={"image": "x", "comand": ["y"]})
    with pytest.raises(InvalidFlow, match="comand"):
        flow.lint()
    [warning] = flow.lint(lenient=True)
    assert 'did you mean "command"' in warning.message
    assert warning.file == str(Path(__file__).relative_to(Path.cwd()))


def test_a_warning_has_the_line_and_the_path_of_its_field() -> None:
    flow = Flow("f")
    work = flow.step("work", image="x", command=["y"])
    flow.step("next", image="x", when=work.phase == "Succeeded")  # here
    flow.finally_(
        "alarm",
        image="x",
        when=flow.phase == "Faild",  # and here
    )
    found = flow.lint()
    lines = Path(__file__).read_text().splitlines()
    assert [lines[each.line - 1].partition("  # ")[2] for each in found] == ["here", "and here"]
    assert [(each.path, each.message.partition(" is")[0]) for each in found] == [
        ("spec.flows[1].when", '"Succeeded" (write "Completed")'),
        ("spec.finally[0].when", '"Faild" (write "Failed")'),
    ]


def test_faults_name_the_step_and_print_as_one_line() -> None:
    child = ChildFlow()
    child.step("c", image="x", timeout="soon")
    flow = Flow("f")
    flow.step("a", image="x", retry=101, env={"X": {1}})
    flow.step("b", flow=child)
    flow.step("B", image="x", timeout="late")
    flow.finally_("d", image="x", when="params.x")
    with pytest.raises(InvalidFlow) as error:
        CronFlow("c", "@daily", flow).lint()
    assert [each.sentence.partition(": ")[0] for each in error.value.faults] == [
        "b/c.timeout",
        "a.env.X",
        "a.retry.limit",
        "spec.jobFlowTemplate.spec.flows[2].name",
        "spec.jobFlowTemplate.spec.flows[2].timeout",
        "d.when",
    ]
    fault = error.value.faults[2]
    file = Path(__file__).relative_to(Path.cwd())
    assert f"{[fault]}" == f"[{file}:{fault.line}: a.retry.limit: {fault.message}]"
    assert fault.path == "spec.jobFlowTemplate.spec.flows[0].retry.limit"


def test_a_value_that_is_no_json_is_one_fault(faults: Callable[[str], list[Fault]]) -> None:
    [fault] = faults(
        """\
flow = Flow("f", params={"x": float("nan"), "y": 1})
flow.step("a", image="x")
flow.lint()
"""
    )
    assert (fault.path, fault.message) == (
        "spec.params[0].value", "a float is no value of JSON: nan")  # fmt: skip


def call_lint(flow: Flow) -> None:
    flow.lint()


def call_yaml(flow: Flow) -> None:
    flow.yaml()


def call_run(flow: Flow) -> None:
    flow.run(show=False)


def call_task(flow: Flow) -> None:
    flow.task()(call_lint).options(name="a")(print)


@pytest.mark.parametrize("call", [call_lint, call_yaml, call_run, call_task])
def test_the_traceback_ends_in_the_file_of_the_user(call: Callable[[Flow], None]) -> None:
    flow = Flow("f", timeout="soon")
    flow.step("a", image="x")
    with pytest.raises(InvalidFlow) as error:
        call(flow)
    frames = traceback.extract_tb(error.tb)
    assert [each.name for each in frames][1:] == [call.__name__]
    assert "During handling" not in "".join(traceback.format_exception(error.value))


def test_two_objects_with_one_name(faults: Callable[[str], list[Fault]]) -> None:
    [fault] = faults(
        """\
flow = Flow("f")
flow.step("a", template=Template("t", spec := JobSpec(tasks=[Task(name="a", replicas=1, template={
    "spec": {"containers": [{"name": "x", "image": "x"}], "restartPolicy": "Never"}})])))
flow.step("b", template=Template("t", spec))
flow.lint()
"""
    )
    assert fault.line == 5
    assert "this JobTemplate is already at" in fault.message


def test_cells_of_notebooks_have_no_path() -> None:
    assert display_name("/nowhere/ipykernel_1/123.py") == "<cell 123>"
    assert display_name("<stdin>") == "<stdin>"
