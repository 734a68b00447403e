"""Objects in flows and jobs, written by tools/authoring_types.py (`make manifests`).

The types and descriptions of their fields are in fields.pyi, for editors and type checkers.
"""

from functools import partial

from jobflow.authoring.objects.api_objects import Fields as Fields
from jobflow.authoring.objects.api_objects import make_class

# The names of fields are written here, because the types of the API take long to import.
_object = partial(make_class, __name__)


HTTPHeader = _object("HTTPHeader", "name value")
HTTPGetProbe = _object("HTTPGetProbe", "task_name path port http_header")
TCPSocketProbe = _object("TCPSocketProbe", "task_name port")
TaskStatusProbe = _object("TaskStatusProbe", "task_name phase count")
Probe = _object("Probe", "http_get_list tcp_socket_list task_status_list")
DependsOn = _object("DependsOn", "targets strategy condition conditions probe items")
Patch = _object("Patch", "job_spec spec")
Case = _object("Case", "when template flow job_spec container compute fail volumes patch")
ForEach = _object("ForEach", "items from_ count parallelism when max_failed min_success until")
Repeat = _object("Repeat", "until max pause")
Backoff = _object("Backoff", "duration factor max")
Retry = _object("Retry", "limit backoff when patch disruptions avoid_nodes")
Approval = _object("Approval", "message timeout default")
Param = _object("Param", "name value enum")
JobDefaults = _object(
    "JobDefaults", "queue priority_class_name scheduler_name plugins labels annotations"
)
Reuse = _object("Reuse", "flow uid")
Concurrency = _object("Concurrency", "group limit policy")
StepConcurrency = _object("StepConcurrency", "group limit slots")
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

__all__ = [each.__name__ for each in Fields.__subclasses__()]
