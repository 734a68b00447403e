"""Objects in flows and jobs, written by tools/authoring_types.py (`make manifests`).

The types and descriptions of their fields are in fields.pyi, for editors and type checkers.
"""

from __future__ import annotations

from dataclasses import make_dataclass
from typing import Any, Self

from jobflow.core.suggest import Suggester, did_you_mean


class Fields:
    """An object of the API. Its fields have the names of the API in snake_case; fields that are
    None are not set."""

    def __new__(cls, **fields: Any) -> Self:
        """Raises TypeError for a field that does not exist."""
        known = cls.__dataclass_fields__  # type: ignore[attr-defined]
        for name in fields.keys() - known.keys():
            guess = did_you_mean(Suggester([*known]).nearest(name))
            raise TypeError(f"{cls.__name__} has no field {name}{guess}")
        return super().__new__(cls)


# The names of fields are written here, because the types of the API take long to import.
def _object(name: str, fields: str) -> Any:
    return make_dataclass(
        name,
        [(field, Any, None) for field in fields.split()],
        bases=(Fields,),
        namespace={"__module__": __name__},
        frozen=True,
        kw_only=True,
        eq=False,
    )


DependsOn = _object("DependsOn", "targets strategy condition conditions probe items")
Patch = _object("Patch", "job_spec spec")
Case = _object("Case", "when template flow job_spec container volumes patch")
ForEach = _object("ForEach", "items from_ count parallelism")
Repeat = _object("Repeat", "until max pause")
Retry = _object("Retry", "limit backoff when patch disruptions avoid_nodes")
Backoff = _object("Backoff", "duration factor max")
Approval = _object("Approval", "message timeout default")
Param = _object("Param", "name value enum")
JobDefaults = _object(
    "JobDefaults", "queue priority_class_name scheduler_name plugins labels annotations"
)
Concurrency = _object("Concurrency", "group limit policy")
JobSpec = _object(
    "JobSpec",
    "scheduler_name min_available min_success volumes tasks policies plugins running_estimate "
    "queue max_retry ttl_seconds_after_finished priority_class_name network_topology",
)
Task = _object(
    "Task",
    "name replicas min_available template policies max_retry topology_policy depends_on "
    "partition_policy",
)
LifecyclePolicy = _object("LifecyclePolicy", "action event events exit_code timeout")
TaskDependsOn = _object("TaskDependsOn", "name iteration")
Volume = _object("Volume", "mount_path volume_claim_name volume_claim")
NetworkTopology = _object("NetworkTopology", "mode highest_tier_allowed highest_tier_name")
PartitionPolicy = _object(
    "PartitionPolicy", "total_partitions partition_size min_partitions network_topology"
)
Probe = _object("Probe", "http_get_list tcp_socket_list task_status_list")
HTTPGetProbe = _object("HTTPGetProbe", "task_name path port http_header")
HTTPHeader = _object("HTTPHeader", "name value")
TCPSocketProbe = _object("TCPSocketProbe", "task_name port")
TaskStatusProbe = _object("TaskStatusProbe", "task_name phase count")
