"""What this process knows of the cluster: indexed copies, kept level by reflectors (`feeds`).

`copies` is the store itself, `pods` which pods it keeps and whose they are, `slim` what is kept of
an object, `listener` who is told of changes. It talks to nobody and decides nothing.
"""

from jobflow.store.copies import Listener, Queue, QueueStatus, Store, flow_of, owner_uid
from jobflow.store.feeds import Feed, feeds
from jobflow.store.products import template_of
from jobflow.store.slim import slim_job, slim_pod

__all__ = [
    "Feed",
    "Listener",
    "Queue",
    "QueueStatus",
    "Store",
    "feeds",
    "flow_of",
    "owner_uid",
    "slim_job",
    "slim_pod",
    "template_of",
]
