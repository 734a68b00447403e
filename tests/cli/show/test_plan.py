"""`jobflow plan`: files, flags and faults."""

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml
from rich.cells import cell_len

from support.paths import ROOT
from support.sandbox.command_line import Result, jobflow
from support.sandbox.flows_to_plan import asking, without_outputs
from support.sandbox.running_controller import flow, template

Json = dict[str, Any]
EXAMPLES = ROOT / "examples"
PASS = "pass the file of the JobTemplate too, or apply it if the flow is on the cluster"
TRAIN = {"prepare": "", "train": "prepare"}


def phases(name: str, listed: list[Any]) -> Json:
    """Return a JobTemplate whose pod goes into these phases."""
    made = template(name)
    text = json.dumps({"main": listed})
    made["metadata"]["annotations"] = {"sandbox.jobflow.volcano.sh/task-phases": text}
    return made


def plan(tmp_path: Path, *manifests: Json, flags: tuple[object, ...] = ()) -> Result:
    """Plan the flows of a file."""
    file = tmp_path / "flows.yaml"
    file.write_text(yaml.safe_dump_all(manifests))
    return jobflow("plan", file, *flags)


def planned(tmp_path: Path, *manifests: Json, flags: tuple[object, ...] = ()) -> Json:
    """Return the plan of a file as JSON."""
    answer = plan(tmp_path, *manifests, flags=(*flags, "-o", "json"))
    assert answer.code == 0, answer
    found: Json = answer.json
    return found


def spans(found: Json) -> dict[str, tuple[float, float]]:
    return {job["job"]: (job["start"], job["end"]) for job in found["jobs"]}


def written(tmp_path: Path, text: str) -> Path:
    (tmp_path / "durations.yaml").write_text(text)
    return tmp_path / "durations.yaml"


def test_json_has_the_jobs_the_critical_path_and_the_hours(tmp_path: Path) -> None:
    gpus = {"cpu": 2, "memory": "8Gi", "nvidia.com/gpu": 4}
    train = asking("train", "30m", **gpus)
    steps = flow("f", TRAIN)
    steps["spec"]["flows"][0]["forEach"] = {"count": 2}
    found = planned(tmp_path, asking("prepare", "1m30s", cpu="500m"), train, steps)
    done = {"phase": "Completed"}
    assert found == {
        "makespanSeconds": 1890,
        "criticalPath": ["prepare", "train"],
        "hours": {"cpu": 1.025, "memoryGiB": 4, "gpu": 2},
        "jobs": [
            {"step": "prepare", "job": "f-prepare-0", "index": 0, "start": 0, "end": 90, **done},
            {"step": "prepare", "job": "f-prepare-1", "index": 1, "start": 0, "end": 90, **done},
            {"step": "train", "job": "f-train", "index": None, "start": 90, "end": 1890, **done},
        ],
        "steps": [
            {"flow": "f", "step": step, **done, "reason": "", "message": "", "remedy": ""}
            for step in TRAIN
        ],
    }


def test_the_table_has_jobs_attempts_and_phases() -> None:
    answer = jobflow("plan", EXAMPLES / "retry.yaml")
    assert (answer.code, answer.err) == (0, "")
    rows = [line.split() for line in answer.out.splitlines()]
    assert rows[0] == ["START", "END", "DURATION", "STEP", "ATTEMPT", "PHASE", "JOB"]
    assert rows[1] == ["0s", "1s", "1s", "download", "1", "Failed", "ingest-download"]
    assert rows[2] == ["2s", "3s", "1s", "download", "2", "Completed", "ingest-download-r1"]
    assert "makespan: 4s (ingest: Succeed)" in answer.out
    assert "critical path: download → load" in answer.out
    assert "download and load run 1s by default" in answer.out


def test_a_step_that_needs_outputs_says_so(tmp_path: Path) -> None:
    why = "forEach.from `steps[\"a\"].outputs.shards`: there is no 'shards'"
    remedy = (
        "No outputs of a are known: set the annotation sandbox.jobflow.volcano.sh/output of the "
        "JobTemplate a, or take outputs of finished flows by --learn"
    )
    found = planned(tmp_path, *without_outputs())
    assert [(each["step"], each["phase"], each["reason"]) for each in found["steps"]] == [
        ("a", "Completed", ""),
        ("b", "Failed", "ExpressionError"),
        ("c", "Skipped", "UpstreamFailed"),
    ]
    assert (found["steps"][1]["message"], found["steps"][1]["remedy"]) == (why, remedy)
    assert found["steps"][2]["message"] == "b did not complete"
    for flags in ((), ("-o", "gantt")):
        lines = plan(tmp_path, *without_outputs(), flags=flags).out.splitlines()
        assert f"b: Failed (ExpressionError): {why}. {remedy}" in lines
        assert "c: Skipped (UpstreamFailed): b did not complete" in lines
    assert ["c", "Skipped"] in [
        line.split() for line in plan(tmp_path, *without_outputs()).out.splitlines()
    ]


def test_a_condition_without_outputs_says_so(tmp_path: Path) -> None:
    made = flow("f", {"a": "", "b": "a", "c": "a"})
    made["spec"]["flows"][1]["when"] = 'has(steps["a"].outputs.n)'
    made["spec"]["flows"][2]["when"] = 'steps["a"].phase == "Failed"'
    found = planned(tmp_path, *(asking(name, "1s") for name in "abc"), made)
    remedies = {each["step"]: each["remedy"][:23] for each in found["steps"]}
    assert remedies == {"a": "", "b": "No outputs of a are kno", "c": ""}


def test_steps_of_several_flows_that_fail_alike_share_a_line(tmp_path: Path) -> None:
    failing = asking("a", "1s")
    failing["metadata"]["annotations"]["sandbox.jobflow.volcano.sh/exit-code"] = "3"
    flows = (flow("f", {"a": "", "b": "a", "c": "a"}), flow("g", {"b": ""}))
    answer = plan(tmp_path, failing, asking("b", "1s"), asking("c", "1s"), *flows)
    assert "JobFlow f: b and c: Skipped (UpstreamFailed): a did not complete" in answer.out
    assert "(f: Failed, g: Succeed)" in answer.out


def test_many_reasons_are_counted(tmp_path: Path) -> None:
    names = [f"s{number}" for number in range(23)]
    made = flow("f", dict.fromkeys(names, ""))
    for step in made["spec"]["flows"]:
        step.update(template="t", when=f'flow.name == "{step["name"]}"')
    answer = plan(tmp_path, asking("t"), made)
    assert answer.out.count("(NotTaken)") == 20
    assert "3 more steps did not complete: see -o json" in answer.out


@pytest.mark.parametrize(
    ("width", "header"),
    [
        (40, "START END STEP PHASE"),
        (50, "START END STEP ATTEMPT PHASE"),
        (70, "START END DURATION STEP ATTEMPT PHASE"),
        (90, "START END DURATION STEP ATTEMPT PHASE JOB"),
    ],
)
def test_a_narrow_table_keeps_steps_times_and_phases(width: int, header: str) -> None:
    rows = jobflow("plan", EXAMPLES / "retry.yaml", columns=width).out.splitlines()
    assert rows[0].split() == header.split()
    assert max(map(cell_len, rows)) <= width
    assert all("Completed" in row or "Failed" in row for row in rows[1:4])


def test_a_long_name_is_cut_so_that_its_phase_is_shown(tmp_path: Path) -> None:
    made = flow("f", {"a" * 50: ""})
    made["spec"]["flows"][0]["template"] = "t"
    (tmp_path / "f.yaml").write_text(yaml.safe_dump_all([asking("t", "1s"), made]))
    rows = jobflow("plan", tmp_path / "f.yaml", columns=20).out.splitlines()
    assert max(map(cell_len, rows[:2])) <= 20
    rows = jobflow("plan", tmp_path / "f.yaml", columns=40).out.splitlines()
    assert rows[0].split() == ["START", "END", "STEP", "PHASE"]
    assert rows[1].split() == ["0s", "1s", "aaaaaaaaaaaaa…", "Completed"]


def test_the_summary_has_the_requested_hours(tmp_path: Path) -> None:
    made = asking("a", "30m", cpu=2, memory="8Gi", **{"nvidia.com/gpu": 1})
    answer = plan(tmp_path, made, flow("f", {"a": ""}))
    assert "requested: 1.00 core-hours, 4.00 GiB-hours, 0.50 GPU-hours\n" in answer.out


def test_gantt_draws_the_steps_of_each_flow() -> None:
    files = (EXAMPLES / "diamond.yaml", EXAMPLES / "retry.yaml")
    answer = jobflow("plan", *files, "-o", "gantt")
    lines = answer.out.splitlines()
    assert answer.code == 0
    assert "test" in lines
    assert "ingest" in lines
    assert sum("█" in line and "running" not in line for line in lines) == 7


def test_svg_draws_one_flow() -> None:
    answer = jobflow("plan", EXAMPLES / "diamond.yaml", "-o", "svg")
    assert (answer.code, answer.err) == (0, "")
    assert ElementTree.fromstring(answer.out).tag.endswith("svg")
    both = (EXAMPLES / "diamond.yaml", EXAMPLES / "retry.yaml")
    answer = jobflow("plan", *both, "-o", "svg")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err == "jobflow: error: -o svg shows one flow: give one, or use -o gantt\n"


def test_a_daemon_is_not_on_the_critical_path() -> None:
    answer = jobflow("plan", EXAMPLES / "daemon.yaml", "-o", "json")
    assert answer.json["criticalPath"] == ["migrate", "test"]


def test_defaults_are_named_beside_json(tmp_path: Path) -> None:
    answer = plan(tmp_path, *map(template, TRAIN), flow("f", TRAIN), flags=("-o", "json"))
    assert answer.json["makespanSeconds"] == 2
    assert answer.err.startswith("jobflow: warning: prepare and train run 1s by default")


def test_durations_precede_annotations_and_steps_precede_templates(tmp_path: Path) -> None:
    steps = {"a": "", "b": "", "c": ""}
    made = flow("f", steps)
    for each in made["spec"]["flows"]:
        each["template"] = "t" if each["name"] != "c" else "u"
    file = written(tmp_path, "a: 7s\nt: 90\n")
    found = planned(
        tmp_path, asking("t", "1h"), asking("u", "2h"), made, flags=("--durations", file)
    )
    assert spans(found) == {"f-a": (0, 7), "f-b": (0, 90), "f-c": (0, 7200)}


def test_durations_replace_listed_phases(tmp_path: Path) -> None:
    made = phases("a", [["Running", 1], ["Succeeded", 2]])
    file = written(tmp_path, '{"a": 1.5}')
    found = planned(tmp_path, made, flow("f", {"a": ""}), flags=("--durations", file))
    assert spans(found) == {"f-a": (0, 1.5)}


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        (
            "trian: 1h\nprepare: soon\nprepare: 1h\n",
            [
                ":1: trian: no step or JobTemplate of the flows has this name; did you mean",
                ":3: prepare is given twice: remove one of them",
            ],
        ),
        ("prepare: soon\n", [":1: prepare: is not a duration: write it like 2s, 500ms"]),
        ("prepare: -1\n", [":1: prepare: is not a duration: write it like 90s or 1h30m"]),
        ("- a\n", [": is not a mapping: write a line for each step or JobTemplate"]),
        ("", [": is not a mapping: write a line for each step or JobTemplate"]),
        ("a: [\n", [": "]),
    ],
)
def test_faults_of_durations_have_their_lines(tmp_path: Path, text: str, faults: list[str]) -> None:
    file = written(tmp_path, text)
    made = (*map(template, TRAIN), flow("f", TRAIN))
    answer = plan(tmp_path, *made, flags=("--durations", file))
    assert (answer.code, answer.out) == (2, "")
    lines = answer.err.splitlines()
    assert len(lines) == len(faults)
    for line, fault in zip(lines, faults, strict=True):
        assert line.startswith(f"jobflow: error: {file}{fault}")


def test_a_missing_file_of_durations_is_an_error(tmp_path: Path) -> None:
    answer = jobflow("plan", EXAMPLES / "diamond.yaml", "--durations", tmp_path / "none.yaml")
    assert (answer.code, answer.err) == (2, f"jobflow: error: {tmp_path}/none.yaml: no such file\n")


def test_flows_share_the_capacity(tmp_path: Path) -> None:
    made = (asking("a", "10s", cpu=3), flow("f", {"a": ""}), flow("g", {"a": ""}))
    found = planned(tmp_path, *made, flags=("--capacity", "cpu=4"))
    assert spans(found) == {"f-a": (0, 10), "g-a": (10, 20)}


def test_a_job_that_never_fits_is_a_fault(tmp_path: Path) -> None:
    made = (asking("a", cpu=8, memory="64Gi"), flow("f", {"a": ""}))
    answer = plan(tmp_path, *made, flags=("--capacity", "cpu=4,memory=32Gi"))
    assert (answer.code, answer.out) == (1, "")
    assert answer.err == (
        "jobflow: error: the job f-a of step a can never start: its first pods ask for 8 cpu and "
        "64Gi memory, the capacity is 4 cpu and 32Gi memory\n"
    )


def test_a_capacity_that_cannot_be_read_is_a_fault() -> None:
    answer = jobflow("plan", EXAMPLES / "diamond.yaml", "--capacity", "cpu=many")
    assert answer.code == 2
    assert answer.err.startswith('jobflow: error: --capacity: "cpu=many" is not a resource')


@pytest.mark.parametrize(
    ("manifests", "sentence"),
    [
        (
            [template("a"), flow("f", {"a": ""}, suspend=True)],
            "it is suspended (spec.suspend), and no step starts until it is resumed",
        ),
        ([flow("f", {"a": ""})], f"step a waits for the JobTemplate a: {PASS}"),
        (
            [phases("a", [["Running", 1]]), flow("f", {"a": ""})],
            "the job f-a of step a stays Running",
        ),
    ],
)
def test_a_flow_that_never_ends_is_an_error(
    tmp_path: Path, manifests: list[Json], sentence: str
) -> None:
    answer = plan(tmp_path, *manifests)
    assert (answer.code, answer.out) == (1, "")
    assert answer.err.splitlines()[-1] == f"jobflow: error: JobFlow f never ends: {sentence}"


@pytest.mark.long
def test_a_large_flow_has_a_critical_path(tmp_path: Path) -> None:
    """The status of this flow has no room for all records of its vcjobs."""
    steps = {f"s{number}": f"s{number - 1}" if number % 700 else "" for number in range(1000)}
    made = flow("f", steps)
    for step in made["spec"]["flows"]:
        step["template"] = "t"
    found = planned(tmp_path, asking("t", "10s"), made)
    assert found["makespanSeconds"] == 7000
    assert found["criticalPath"] == [f"s{number}" for number in range(700)]


def test_params_can_be_set() -> None:
    answer = jobflow("plan", EXAMPLES / "params.yaml", "--param", "nope=1")
    assert (answer.code, "--param nope" in answer.err) == (2, True)


def test_an_approval_is_given_at_once_or_when_durations_say(tmp_path: Path) -> None:
    release = flow("f", {"a": "", "ok": "a", "b": "ok"})
    release["spec"]["flows"][1] |= {"approval": {"timeout": "1m", "default": "Reject"}}
    manifests = template("a"), template("b"), release
    result = plan(tmp_path, *manifests)
    assert "makespan: 2s (f: Succeed)" in result.out
    assert "ok is approved at once: set the times until then with --durations" in result.out
    durations = tmp_path / "durations.yaml"
    durations.write_text("{ok: 30s, a: 1s, b: 1s}")
    result = plan(tmp_path, *manifests, flags=("--durations", durations))
    assert "makespan: 32s (f: Succeed)" in result.out
    durations.write_text("{ok: 90s, a: 1s, b: 1s}")
    result = plan(tmp_path, *manifests, flags=("--durations", durations))
    assert "makespan: 1m1s (f: Failed)" in result.out
    assert "rejected by default, because nobody answered within 1m" in result.out
