"""Limits that both admission and planning apply."""

MAX_RUNS = 1000
"""Runs of a step, each of which has an entry in the status. Admission refuses more, and
planning ignores them."""
MAX_INT32 = 2**31 - 1
"""Largest number of the API's fields."""
MAX_NEXT_JOBS = 100
"""Names in the nextJobs of a status."""
MAX_MESSAGE_BYTES = 4096
"""Bytes of a termination message that the kubelet keeps: its last ones."""
MAX_POD_MESSAGE_BYTES = 3 * MAX_MESSAGE_BYTES
"""Bytes of the termination messages of a pod, which its containers share equally. The kubelet cuts
the end of a longer one (`normalizeStatus` in pkg/kubelet/status/status_manager.go)."""
MAX_STEP_OUTPUTS = 4096
"""Bytes of a step's outputs, as JSON in the status."""
MAX_FLOW_OUTPUTS = 64 * 1024
"""Bytes of the outputs of all steps of a flow, with the name of the field."""
