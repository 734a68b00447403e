"""Laws of Volcano's rules, for any JSON."""

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from jobflow.core.admission.volcano import job as job_rules
from jobflow.core.admission.volcano.job import job_violations
from jobflow.core.admission.volcano.job_view import job_view
from support.admission.reviewed import job_faults

GOOD_TASK = {
    "name": "good",
    "replicas": 0,
    "template": {"spec": {"containers": [{"name": "c", "image": "busybox"}]}},
}

KEYS = (
    "tasks name replicas minAvailable template spec containers initContainers image resources "
    "requests limits cpu topologyPolicy policies event events exitCode action timeout dependsOn "
    "partitionPolicy totalPartitions partitionSize minPartitions networkTopology mode "
    "highestTierAllowed highestTierName volumes mountPath volumeClaim volumeClaimName plugins mpi "
    "svc queue schedulerName runningEstimate"
).split()
WORDS = ["", "a", "A", "*", "PodFailed", "AbortJob", "restricted", "1", "--master", "/x", "\ud800"]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 3) | st.floats() | st.sampled_from(WORDS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner),
    max_leaves=30,
)
SPECS = st.fixed_dictionaries(
    {"tasks": JSON | st.lists(st.dictionaries(st.sampled_from(KEYS), JSON), max_size=3)},
    optional={key: JSON for key in KEYS if key != "tasks"},
)


@given(JSON | SPECS)
def test_no_rule_raises_on_any_json(spec: Any):
    for violation in job_violations(spec, "spec"):
        assert str(violation).startswith("spec")


@given(SPECS)
def test_no_rule_changes_its_input(spec: dict[str, Any]):
    before = copy.deepcopy(spec)
    list(job_violations(spec, "spec"))
    assert repr(spec) == repr(before)


@given(SPECS, SPECS)
def test_a_rule_reads_only_the_fields_that_it_names(one: dict[str, Any], other: dict[str, Any]):
    for rule, fields in job_rules._FIELDS_OF_RULES.items():
        mixed = {key: value for key, value in other.items() if key not in fields}
        mixed |= {key: value for key, value in one.items() if key in fields}
        reported = [str(violation) for violation in rule(job_view(one, "spec"))]
        assert reported == [str(violation) for violation in rule(job_view(mixed, "spec"))]


@given(SPECS)
def test_an_additional_valid_task_changes_no_fault(spec: dict[str, Any]):
    if not isinstance(spec["tasks"], list) or not spec["tasks"] or spec.get("minAvailable"):
        return
    longer = spec | {"tasks": [*spec["tasks"], GOOD_TASK]}
    assert job_faults(longer) == job_faults(spec)
