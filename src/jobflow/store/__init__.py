"""Copies of the cluster's objects, with indexes, kept up to date by reflectors (`feeds`)."""

from jobflow.store.copies import Listener, Queue, QueueStatus, Store, flow_of
from jobflow.store.feeds import Feed, Feeds, feeds
from jobflow.store.owners import controlling_flow
from jobflow.store.slim import slim_job, slim_pod
from jobflow.store.template_jobs import template_of

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
    "slim_job",
    "slim_pod",
    "template_of",
]
