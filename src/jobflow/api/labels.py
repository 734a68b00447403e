"""Labels and annotations: Volcano's where Volcano has one, else under `flow.volcano.sh/`.

A value that names an object is `<namespace>.<name>`, as Volcano writes it. A label value over 63
characters is a prefix and a hash (`core.names.label_value`); the annotation has the full name.
"""

CREATED_BY_FLOW = "volcano.sh/createdByJobFlow"
CREATED_BY_TEMPLATE = "volcano.sh/createdByJobTemplate"

STEP = "flow.volcano.sh/step"
"""The step of a vcjob: label (shortened where too long) and annotation (full)."""
ATTEMPT = "flow.volcano.sh/attempt"
"""Which run of its step a vcjob is, counted from 1. Label."""
INDEX = "flow.volcano.sh/index"
"""Which item or repeat of its step a vcjob is, from 0. Label and annotation."""
TARGET_ENDS = "flow.volcano.sh/target-ends"
"""How the targets of a vcjob's step had ended when it was made: JSON, at most 16 KiB
(`core.target_ends`). Every vcjob that JobFlow makes has it. Annotation."""
TEMPLATE_GENERATION = "flow.volcano.sh/template-generation"
"""`metadata.generation` of the template a vcjob was built from. Annotation."""
TTL_SECONDS = "flow.volcano.sh/ttl-seconds-after-finished"
"""The template's ttl, which the controller, not Volcano, carries out. Annotation."""
FORCE_DELETE = "flow.volcano.sh/force-delete"
"""`"true"` on a flow or a template: delete it although it is in use. Annotation."""

SANDBOX_PREFIX = "sandbox.jobflow.volcano.sh/"
"""Annotations that tell the sandbox's `simulate` runner how a job goes."""
