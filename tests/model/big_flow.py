"""A flow that uses nearly every control primitive, and the scripts of its vcjobs."""

from typing import Any

from jobflow.api.flow.control import (
    Backoff,
    Case,
    ForEach,
    JobDefaults,
    Param,
    Patch,
    Repeat,
    Retry,
)
from jobflow.api.flow.jobflow import JobFlow, JobFlowSpec
from jobflow.api.flow.step import Step
from jobflow.api.resources import ObjectMeta
from model import carrying
from model.acting import Script
from support.plan.steps import TEMPLATE_SPEC, after
from support.plan.world_state import FLOW_UID, NOW

TEMPLATES: dict[str, dict[str, Any]] = {
    name: dict(TEMPLATE_SPEC) for name in ("prepare", "serve", "train", "large", "small", "tell")
}


STEPS = [
    Step(
        name="data",
        template="prepare",
        retry=Retry(limit=2, backoff=Backoff(duration="2s")),
        patch=Patch(job_spec={"queue": "$(params.queue)"}),
    ),
    Step(name="store", template="serve", daemon=True, timeout="100s"),
    Step(name="check", template="prepare", continue_on_failure=True),
    Step(
        name="search",
        template="train",
        depends_on=after("data store check"),
        for_each=ForEach(from_='steps["data"].outputs.rates', parallelism=2),
        retry=Retry(limit=1, avoid_nodes=True),
        patch=Patch(job_spec={"queue": "q-$(item)-$(index)"}),
    ),
    Step(
        name="best",
        depends_on=after("search"),
        switch=[
            Case(when='steps["search"].items[1].outputs.n > 5', template="large"),
            Case(template="small", patch=Patch(job_spec={"queue": "q-small"})),
        ],
    ),
    Step(
        name="again",
        template="train",
        depends_on=after("best"),
        repeat=Repeat(until="outputs.n > 1", max=3),
        timeout="4s",
        retry=Retry(limit=1, when='reason == "Timeout"'),
    ),
    Step(name="alarm", template="tell", depends_on=after("again", condition="Failed")),
    Step(
        name="publish",
        template="tell",
        depends_on=after("again"),
        when='steps["again"].outputs.n > 1',
    ),
    Step(name="beside", template="prepare", depends_on=after("store", condition="Running")),
]
FINALLY = [
    Step(name="clean", template="tell"),
    Step(name="praise", template="tell", when='flow.phase == "Succeed"'),
]
SCRIPTS = {
    "data": (Script(lasts=2, end="Failed"), Script(lasts=2, output={"rates": [1, 2, 3]})),
    "store": (Script(lasts=None, obeys=2),),
    "check": (Script(lasts=1, end="Failed"),),
    "search": (
        Script(lasts=3, output={"n": 3}),
        Script(lasts=2, end="Failed", node="n9"),
        Script(lasts=1, output={"n": 6}),
    ),
    "best": (Script(lasts=2),),
    "again": (
        Script(lasts=2, output={"n": 1}),
        Script(lasts=9, output={"n": 0}),
        Script(lasts=1, output={"n": 2}),
    ),
    "alarm": (Script(),),
    "publish": (Script(lasts=2),),
    "beside": (Script(lasts=4),),
    "clean": (Script(lasts=3),),
    "praise": (Script(lasts=1),),
}


def big_flow(policy: str | None = None, **scripts: tuple[Script, ...]) -> carrying.Case:
    """The flow; `scripts` replace those of single steps."""
    spec = JobFlowSpec(
        flows=STEPS,
        finally_=FINALLY,
        params=[Param(name="queue", value="q-big")],
        parallelism=4,
        timeout="200s",
        failure_policy=policy,
        job_defaults=JobDefaults(queue="q-default", priority_class_name="high"),
    )
    metadata = ObjectMeta(
        name="big", namespace="ns", uid=FLOW_UID, generation=1, creation_timestamp=NOW
    )
    return carrying.Case(JobFlow(metadata=metadata, spec=spec), TEMPLATES, SCRIPTS | scripts)
