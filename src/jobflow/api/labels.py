"""Labels and annotations, of Volcano or under `flow.volcano.sh/`, and label selectors.

A value that names an object is `<namespace>.<name>`, as Volcano writes it. A label value over 63
characters is shortened to a prefix and a hash (`core.names.to_label_value`); the annotation has the
full name.
"""

import re
from collections.abc import Collection, Mapping

CREATED_BY_FLOW = "volcano.sh/createdByJobFlow"
CREATED_BY_TEMPLATE = "volcano.sh/createdByJobTemplate"

FLOW_UID = "flow.volcano.sh/flow-uid"
"""The UID of the flow that has created a vcjob: annotation. It counts for a vcjob without a
controller, because somebody may have removed its owner references."""
STEP = "flow.volcano.sh/step"
"""The step of a vcjob: label and annotation."""
ATTEMPT = "flow.volcano.sh/attempt"
"""The number of a vcjob's attempt, from 1: label."""
INDEX = "flow.volcano.sh/index"
"""The index of a vcjob's item or repeat, from 0: label and annotation."""
PARENT = "flow.volcano.sh/parent"
"""The flow that a child flow belongs to: label of the child and of its vcjobs."""
ROOT = "flow.volcano.sh/root"
"""The outermost flow of a child flow: label of the child, of its vcjobs and of their pods."""
TARGET_ENDS = "flow.volcano.sh/target-ends"
"""How the targets of a vcjob's step had ended when the vcjob was created: annotation of every vcjob
of a flow, JSON, at most 16 KiB (`core.planning.target_ends`)."""
NOT_COMPARED = "#jobflow:not-compared\n"
"""First line of an element of command or args that a fingerprint leaves out: the program around a
function in Python, and its place in a file."""
FINGERPRINT = "flow.volcano.sh/fingerprint"
"""What a vcjob does and what it is made of, for flows that reuse its result: annotation
(`core.manifests.fingerprint`). It goes into the status when the run has completed."""
TIMEOUT = "flow.volcano.sh/timeout"
"""The timeout of an attempt, if its vars have computed it: annotation."""
TEMPLATE_GENERATION = "flow.volcano.sh/template-generation"
"""`metadata.generation` of a vcjob's template: annotation."""
TTL_SECONDS = "flow.volcano.sh/ttl-seconds-after-finished"
"""The template's ttl, which the controller applies instead of Volcano: annotation."""
CRON = "flow.volcano.sh/cronjobflow"
"""The CronJobFlow that a flow belongs to: label and annotation."""
SCHEDULED_TIME = "flow.volcano.sh/scheduled-time"
"""The scheduled time of a flow, RFC 3339 in the time zone of the schedule: annotation. It is the
value of `flow.scheduledTime`."""
INSTANTIATE = "flow.volcano.sh/instantiate"
"""`manual` or `backfill`: who created a flow of a CronJobFlow, if not its schedule: annotation."""
SKIP = "flow.volcano.sh/skip"
"""Name of a flow without whose success the schedule goes on: annotation of a CronJobFlow, which the
controller removes."""
BY = "flow.volcano.sh/by"
"""The user who sent a Command to a flow: annotation, written by JobFlow's webhook."""
OUTPUTS = "flow.volcano.sh/outputs"
"""Outputs of the step that a Command approves: annotation, a JSON object of at most 4 KiB."""
FORCE_DELETE = "flow.volcano.sh/force-delete"
"""`"true"` lets a flow or a template be deleted although it is in use: annotation."""

SANDBOX_PREFIX = "sandbox.jobflow.volcano.sh/"
"""Prefix of annotations that tell the sandbox's `simulate` runner how a job runs."""


# ------------------------------------------------ selectors (k8s.io/apimachinery, pkg/labels)


Requirement = tuple[str, str, Collection[str]]
"""Key, operator of a LabelSelector (or `<`, `>`), values."""

_SET = re.compile(r"\s*(\S+)\s+(in|notin)\s*\(([^()]*)\)\s*")
_EQUAL = re.compile(r"\s*([^=!\s]+)\s*(==|!=|=)\s*([-A-Za-z0-9_.]*)\s*")
_ORDER = re.compile(r"\s*([^=!<>\s]+)\s*([<>])\s*(-?[0-9]+)\s*")
_EXISTS = re.compile(r"\s*(!?)\s*([A-Za-z0-9](?:[-A-Za-z0-9_./]*[A-Za-z0-9])?)\s*")


def split_terms(text: str) -> list[str]:
    """Return the terms between commas, without empty ones."""
    return [term for term in re.split(r",(?![^()]*\))", text) if term.strip()]


def parse_label_selector(text: str) -> list[Requirement]:
    """Return the requirements, all of which have to hold. Raises ValueError, as a server would."""
    if re.search(r",\s*(,|$)|^\s*,", text):
        raise ValueError("found ',', expected: identifier after ','")
    requirements: list[Requirement] = []
    for term in split_terms(text):
        if found := _SET.fullmatch(term):
            values = [value.strip() for value in found[3].split(",")]
            requirements.append((found[1], "In" if found[2] == "in" else "NotIn", values))
        elif found := _EQUAL.fullmatch(term):
            requirements.append((found[1], "NotIn" if found[2] == "!=" else "In", (found[3],)))
        elif found := _ORDER.fullmatch(term):
            requirements.append((found[1], found[2], (found[3],)))
        elif found := _EXISTS.fullmatch(term):
            requirements.append((found[2], "DoesNotExist" if found[1] else "Exists", ()))
        else:
            raise ValueError(f'unable to parse requirement: cannot read "{term}" of "{text}"')
    return requirements


def holds(labels: Mapping[str, str], key: str, operator: str, values: Collection[str]) -> bool:
    value = labels.get(key)
    match operator:
        case "In":
            return value in values
        # an object without the label too, as in Kubernetes
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    # `<` and `>` compare whole numbers, and hold for no other value
    if value is None or not re.fullmatch(r"[-+]?[0-9]+", value):
        return False
    (limit,) = map(int, values)
    return int(value) > limit if operator == ">" else int(value) < limit
