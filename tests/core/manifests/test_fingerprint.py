"""Laws of fingerprints: they differ as soon as a job does something else, and only then."""

import re

import pytest

from jobflow.core.manifests.fingerprint import digest, what_it_does
from support.laws.all_fields import changes, plain, whole_job
from support.paths import ROOT

POD = "tasks.template.spec"
NOT_COMPARED = {
    "metadata": ("tasks.template.metadata",),
    "queue": ("queue",),
    "priority class": (
        "priorityClassName", f"{POD}.priorityClassName", f"{POD}.priority",
        f"{POD}.preemptionPolicy",
    ),
    "scheduler": ("schedulerName", f"{POD}.schedulerName", f"{POD}.schedulingGates"),
    "requests and limits": (
        f"{POD}.resources", f"{POD}.overhead", f"{POD}.resourceClaims",
        *(
            f"{POD}.{containers}.{field}"
            for containers in ("containers", "initContainers", "ephemeralContainers")
            for field in ("resources", "resizePolicy")
        ),
    ),
    "node selectors": (f"{POD}.nodeSelector", f"{POD}.nodeName"),
    "affinity": (
        "networkTopology", "tasks.topologyPolicy", f"{POD}.affinity",
        f"{POD}.topologySpreadConstraints",
    ),
    "tolerations": (f"{POD}.tolerations",),
    "timeouts": (
        "runningEstimate", f"{POD}.activeDeadlineSeconds", f"{POD}.terminationGracePeriodSeconds",
    ),
    "ttl": ("ttlSecondsAfterFinished",),
    "retries": ("maxRetry", "tasks.maxRetry"),
    "policies": ("policies", "tasks.policies"),
    # JobFlow sets it, so that the last line of a log is the message of a failed pod
    "defaults of JobFlow": (
        f"{POD}.containers.terminationMessagePolicy",
        f"{POD}.initContainers.terminationMessagePolicy",
        f"{POD}.ephemeralContainers.terminationMessagePolicy",
    ),
}  # fmt: skip
"""The fields that do not count, by the words of the reference. All others do, of any type."""
PATHS = tuple(path for paths in NOT_COMPARED.values() for path in paths)


def counts(path: str) -> bool:
    return not any(path == each or path.startswith(f"{each}.") for each in PATHS)


def test_a_change_of_any_single_field_counts_except_in_the_fields_that_do_not() -> None:
    """Fields that no type has count too."""
    job = whole_job()
    made, ignored = digest(what_it_does(job)), set()
    for path, changed in changes(job):
        differs = digest(what_it_does(changed)) != made
        assert differs == counts(plain(path)), plain(path)
        ignored |= set() if differs else {plain(path)}
    assert ignored >= set(PATHS), "a field that does not count does not exist"


@pytest.mark.parametrize(
    "field", ["containers", "initContainers", "ephemeralContainers", "volumes"]
)
def test_the_order_of_a_list_counts(field: str) -> None:
    def spec(*images: str) -> dict[str, object]:
        entries = [{"name": image} for image in images]
        return {"tasks": [{"template": {"spec": {field: entries}}}]}

    assert digest(what_it_does(spec("a", "b"))) != digest(what_it_does(spec("b", "a")))


def test_the_fields_that_do_not_count_are_in_the_reference() -> None:
    text = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    section = text[text.index("\n## Reuse\n") : text.index("\n## Volume claims\n")]
    named = set(re.findall(r"`(\w+)`", section))
    assert {path.rpartition(".")[2] for path in PATHS} - {"metadata"} <= named
