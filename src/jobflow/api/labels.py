"""Labels and annotations, of Volcano or under `flow.volcano.sh/`.

A value that names an object is `<namespace>.<name>`, as Volcano writes it. A label value over 63
characters is shortened to a prefix and a hash (`core.names.label_value`); the annotation has the
full name.
"""

CREATED_BY_FLOW = "volcano.sh/createdByJobFlow"
CREATED_BY_TEMPLATE = "volcano.sh/createdByJobTemplate"

STEP = "flow.volcano.sh/step"
"""The step of a vcjob: label and annotation."""
ATTEMPT = "flow.volcano.sh/attempt"
"""The number of a vcjob's attempt, from 1: label."""
INDEX = "flow.volcano.sh/index"
"""The index of a vcjob's item or repeat, from 0: label and annotation."""
TARGET_ENDS = "flow.volcano.sh/target-ends"
"""How the targets of a vcjob's step had ended when the vcjob was created: annotation of every vcjob
of a flow, JSON, at most 16 KiB (`core.planning.target_ends`)."""
TEMPLATE_GENERATION = "flow.volcano.sh/template-generation"
"""`metadata.generation` of a vcjob's template: annotation."""
TTL_SECONDS = "flow.volcano.sh/ttl-seconds-after-finished"
"""The template's ttl, which the controller applies instead of Volcano: annotation."""
FORCE_DELETE = "flow.volcano.sh/force-delete"
"""`"true"` lets a flow or a template be deleted although it is in use: annotation."""

SANDBOX_PREFIX = "sandbox.jobflow.volcano.sh/"
"""Prefix of annotations that tell the sandbox's `simulate` runner how a job runs."""
