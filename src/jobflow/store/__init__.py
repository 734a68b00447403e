"""Copies of the cluster's objects, with indexes, kept up to date by reflectors (`feeds`)."""

from jobflow.store.copies import Listener, Queue, QueueStatus, Store, flow_of
from jobflow.store.feeds import Feed, Feeds, feeds
from jobflow.store.indexes import controlling_flow, reused_flow, template_of
from jobflow.store.slim import slim_job, slim_pod

__all__ = [
    "Feed",
    "Feeds",
    "Listener",
    "Queue",
    "QueueStatus",
    "Store",
    "controlling_flow",
    "feeds",
    "flow_of",
    "reused_flow",
    "slim_job",
    "slim_pod",
    "template_of",
]
