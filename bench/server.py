"""The measured webhook: the app, TLS and memory settings of `jobflow serve`, on one core.

`python -m bench.server CORE FOLDER` writes a certificate to FOLDER, prints its port and serves.
"""

import os
import sys
from pathlib import Path

from bench import samples
from jobflow.app import serve
from jobflow.app.metrics import Metrics
from jobflow.kube.client import Client
from jobflow.runtime.event_loop import run
from jobflow.runtime.http_listener import HttpListener
from jobflow.store import Queue, QueueStatus, Store
from jobflow.webhook.app import create_app
from jobflow.webhook.certificates.live import write_development_pki
from jobflow.webhook.cluster import StoreCluster
from jobflow.webhook.large_reviews import ReviewProcess
from support.network.anonymous import anonymous

NOWHERE = "http://127.0.0.1:1"


def known() -> Store:
    """A cluster with the template and the queue of the samples."""
    store = Store()
    template = samples.template()
    queue = Queue(metadata=template.metadata, status=QueueStatus(state="Open"))
    store.flows.replace([], "1")
    store.jobs.replace([], "1")
    store.templates.replace([template], "1")
    store.queues.replace([queue], "1")
    return store


async def main(folder: Path) -> None:
    """Serve until the process ends."""
    pki = write_development_pki(folder, ["127.0.0.1"])
    async with Client(anonymous(NOWHERE)) as client:
        cluster = StoreCluster(known(), client)
        app = create_app(cluster, Metrics().reviewed, large_reviews=ReviewProcess(cluster))
        tls = pki.serving.context()
        listener = HttpListener(app, port=0, host="127.0.0.1", tls=tls, flag="")
        serve.freeze_garbage_collector()
        print(listener.port, flush=True)
        await listener.serve()


if __name__ == "__main__":
    os.sched_setaffinity(0, {int(sys.argv[1])})
    run(main(Path(sys.argv[2])))
