"""Quantities, requests of a vcjob, and requested hours."""

from datetime import timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobflow.api.flow.status import RequestedHours
from jobflow.api.volcano.job import Job, JobOutline
from jobflow.core.pods.resources import (
    Requests,
    add_hours,
    parse_quantity,
    replace_hours,
    sum_requests,
)
from support.laws.effort_of_laws import tries

HOUR = timedelta(hours=1)
GIB = 2.0**30


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1", 1), ("0", 0), ("500m", 0.5), ("1.5", 1.5), (".5", 0.5), ("5.", 5), ("100u", 1e-4),
        ("100n", 1e-7), ("1k", 1000), ("2M", 2e6), ("1G", 1e9), ("1T", 1e12), ("1Ki", 1024),
        ("1Mi", 2**20), ("1.5Gi", 1.5 * 2**30), ("1Ti", 2**40), ("1e3", 1000), ("1E3", 1000),
        ("1e-3", 0.001), ("1e+2", 100), ("1E", 1e18), (2, 2), (0.25, 0.25),
    ],
)  # fmt: skip
def test_quantities_are_parsed_as_in_kubernetes(text: object, number: float) -> None:
    assert parse_quantity(text) == pytest.approx(number, rel=1e-12)


@pytest.mark.parametrize(
    "text",
    ["", " ", "1 ", "x", "m", ".", "-1", "+1", "1K", "1ki", "1mi", "1ee3", "1e", "1e3m", "1e9999",
     "1e999", "99999E", "1,5", "0x10", "١", "9" * 5000, "1" + "0" * 39, "NaN", "inf", None, True,
     False, [], ["1"], {}, {"a": 1}, -1, -0.5, float("nan"), float("inf"), 10**400, 1e300],
)  # fmt: skip
def test_malformed_quantities_have_no_value(text: object) -> None:
    assert parse_quantity(text) is None


json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
likely = st.from_regex(r"[-+.0-9eEKMGTPEinum]{0,12}", fullmatch=True)


@given(json | likely)
@tries(100)
def test_any_json_is_a_quantity_or_has_no_value(value: object) -> None:
    found = parse_quantity(value)
    assert found is None or 0 <= found <= 1e18


def outline(*tasks: dict[str, object]) -> JobOutline:
    return msgspec.convert({"tasks": list(tasks)}, JobOutline)


def task(
    replicas: int | None, *containers: object, init: tuple[object, ...] = ()
) -> dict[str, object]:
    spec = {
        "containers": [{"resources": each} for each in containers],
        "initContainers": [{"resources": each} for each in init],
    }
    return {"name": "t", "replicas": replicas, "template": {"spec": spec}}


def test_requests_of_all_pods_are_added_up() -> None:
    workers = task(4, {"requests": {"cpu": "500m", "memory": "1Gi", "nvidia.com/gpu": 2}})
    ps = task(2, {"requests": {"cpu": 1}}, {"requests": {"cpu": "250m", "memory": "512Mi"}})
    assert sum_requests(outline(workers, ps)) == Requests(cpu=4.5, memory=5 * GIB, gpu=8)


def test_a_larger_request_of_an_init_container_counts() -> None:
    init = ({"requests": {"cpu": "3", "memory": "1Mi"}}, {"requests": {"cpu": "2"}})
    requested = task(
        2, {"requests": {"cpu": "1", "memory": "1Gi"}}, {"requests": {"cpu": 1}}, init=init
    )
    assert sum_requests(outline(requested)) == Requests(cpu=6, memory=2 * GIB)


def test_a_limit_counts_if_there_is_no_request() -> None:
    requested = {
        "requests": {"cpu": "1"},
        "limits": {"cpu": "4", "memory": "2Gi", "amd.com/gpu": "1"},
    }
    assert sum_requests(outline(task(1, requested))) == Requests(cpu=1, memory=2 * GIB, gpu=1)


@pytest.mark.parametrize(
    ("resource", "counts"),
    [
        ("nvidia.com/gpu", True),
        ("amd.com/gpu", True),
        ("nvidia.com/gpu.shared", True),
        ("volcano.sh/vgpu-number", True),
        ("volcano.sh/vgpu-memory", False),
        ("volcano.sh/vgpu-cores", False),
        ("aliyun.com/gpu-mem", False),
        ("gpu", False),
        ("rdma/hca", False),
    ],
)
def test_only_gpu_devices_are_counted(resource: str, counts: bool) -> None:
    requested = sum_requests(outline(task(1, {"requests": {resource: "3"}})))
    assert requested.gpu == (3 if counts else 0)


@pytest.mark.parametrize(
    "job",
    [
        {},
        {"tasks": None},
        {"tasks": [{}]},
        {"tasks": [{"replicas": 3}]},
        {"tasks": [{"replicas": 3, "template": {}}]},
        {"tasks": [{"replicas": 3, "template": {"spec": {}}}]},
        {"tasks": [{"replicas": 3, "template": {"spec": {"containers": [{}]}}}]},
        {"tasks": [task(-1, {"requests": {"cpu": 1}})]},
        {"tasks": [task(None, {"requests": {"cpu": 1}})]},
        {"tasks": [task(1, {"requests": {"cpu": "a lot", "memory": [], "x.com/gpu": {}}})]},
    ],
)
def test_jobs_without_readable_requests_request_nothing(job: dict[str, object]) -> None:
    assert sum_requests(msgspec.convert(job, JobOutline)) == Requests()


def test_requests_of_a_huge_number_of_pods_are_finite() -> None:
    requested = sum_requests(outline(task(10**30, {"requests": {"cpu": "1E"}})))
    assert add_hours(requested, 1000 * HOUR, None) is not None


# -------------------------------------------------------------------------------- hours


def test_hours_are_requests_times_duration() -> None:
    requested = Requests(cpu=4.5, memory=5 * GIB, gpu=8)
    found = add_hours(requested, timedelta(minutes=30), None)
    assert found == RequestedHours(cpu="2.25", memory="2.5", gpu="4")


def test_hours_have_four_decimals_and_zeros_are_omitted() -> None:
    found = add_hours(Requests(cpu=1), timedelta(seconds=3), None)
    assert found == RequestedHours(cpu="0.0008")
    assert add_hours(Requests(cpu=0.01), timedelta(seconds=1), None) is None
    assert add_hours(Requests(), HOUR, None) is None
    assert add_hours(Requests(cpu=1), -HOUR, None) is None


def test_hours_of_all_attempts_are_added_up() -> None:
    before = RequestedHours(cpu="1.25", gpu="2")
    assert add_hours(Requests(cpu=1, memory=GIB), HOUR, before) == RequestedHours(
        cpu="2.25", memory="1", gpu="2"
    )
    assert add_hours(Requests(cpu=100), 100 * HOUR, before) == RequestedHours(
        cpu="10001.25", gpu="2"
    )


def test_a_part_of_the_hours_is_replaced() -> None:
    total = RequestedHours(cpu="3.5", memory="2", gpu="1")
    before, after = RequestedHours(cpu="1", gpu="1"), RequestedHours(cpu="1.75", memory="0.5")
    assert replace_hours(total, before, after) == RequestedHours(cpu="4.25", memory="2.5")
    assert replace_hours(None, None, after) == after
    assert replace_hours(before, before, None) is None
    assert replace_hours(None, total, after) is None, "a part of more than there is leaves nothing"


def test_malformed_hours_of_a_status_are_ignored() -> None:
    assert add_hours(Requests(cpu=1), HOUR, RequestedHours(cpu="much")) == RequestedHours(cpu="1")


@given(json)
@tries(100)
def test_a_pod_template_of_any_json_has_requests(value: object) -> None:
    """Without a schema in the CRD, every field may be any JSON."""
    templates: list[object] = [
        value,
        {"spec": value},
        {"spec": {"containers": value, "initContainers": value}},
        {"spec": {"containers": [value]}},
        {"spec": {"containers": [{"name": value, "resources": value}]}},
        {"spec": {"containers": [{"resources": {"requests": value, "limits": value}}]}},
        {"spec": {"containers": [{"resources": {"requests": {"cpu": value}}}]}},
    ]
    spec = {"tasks": [{"name": "t", "replicas": 1, "template": template} for template in templates]}
    try:
        text = msgspec.json.encode({"spec": spec})
    except UnicodeEncodeError:
        return
    job = msgspec.json.decode(text, type=Job)
    assert len(job.spec.tasks or ()) == len(templates)
    assert all(amount >= 0 for amount in sum_requests(job.spec))
