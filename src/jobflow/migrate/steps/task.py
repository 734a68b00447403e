"""One task of a dag, or one step, with its hooks, as steps of a flow."""

from __future__ import annotations

import re
from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from jobflow.api.flow.step import Step
from jobflow.api.flow.traits import Runs, fields_of
from jobflow.client.manifests.yaml_nodes import data_of
from jobflow.migrate.context import Context
from jobflow.migrate.expressions.cel import condition_to_cel, test_to_cel
from jobflow.migrate.expressions.parse import split_tags
from jobflow.migrate.expressions.values import Ref, quote
from jobflow.migrate.fields import Field
from jobflow.migrate.scopes import StepDraft, StepInfo
from jobflow.migrate.steps.bodies import Workflow, body_of, note_global
from jobflow.migrate.steps.control import converted, loop_of
from jobflow.migrate.steps.dependencies import Dependencies
from jobflow.migrate.steps.parameters import Wanted, bind
from jobflow.migrate.steps.pods import placeholder
from jobflow.migrate.templates import Called, Library, template_of

COMMENT = "__comment__"
"""Key of a step with sentences that are written above it as comments."""
_ITEM = re.compile(r"\bitem\b")
# Fields of a step before those that say what it runs, in the order of its type.
_ORDER = (
    COMMENT,
    *(each.json for each in fields_of(Step) if each.get(Runs) is None and not each.is_of_job),
)


@dataclass(slots=True)
class Task:
    """A task of a dag, or a step of a group."""

    name: str
    entry: Field
    depends: Dependencies
    is_forgiven: bool = False
    """Whether the workflow can succeed although it fails."""


@dataclass(slots=True)
class TaskWriter:
    workflow: Workflow
    called: Called
    context: Context
    infos: Mapping[str, StepInfo]
    probes: Mapping[str, Field]
    """Readiness probes of daemons, by the names of their tasks."""

    def steps(self, task: Task) -> Iterator[dict[str, Any]]:
        info, findings = self.infos[task.name], task.entry.findings
        around = findings.step
        findings.step = f"{around}/{info.name}"
        findings.origins[info.name] = task.entry.key
        step = self._step(task, info)
        if task.is_forgiven:
            step["continueOnFailure"] = True
        on_exit = (("exit", each) for each in task.entry.present("onExit"))
        hooks = []
        for name, hook in (*on_exit, *task.entry.named("hooks")):
            expression = hook.get("expression") if hook.is_map else None
            if expression is not None and "Running" in expression.text:
                expression.gap("a step cannot start while another one runs, except after a daemon")
                hook.take()
            else:
                hooks.append(self._hook(task, info, name, hook, expression))
        if comments := findings.comments.pop(findings.step, None):
            step[COMMENT] = [*comments]
        findings.step = around
        yield _ordered(step)
        yield from hooks

    def _step(self, task: Task, info: StepInfo) -> dict[str, Any]:
        draft = StepDraft()
        context = replace(self.context, draft=draft, own_name=task.name, steps=self.infos)
        loop = loop_of(task.entry, context)
        if loop is not None:
            item = Ref("item", "item", loop.kind, "item")
            context = replace(context, item=item, item_keys=loop.keys)
        step: dict[str, Any] = {"name": info.name}
        if task.depends.terms:
            depends = task.depends.manifest(self.infos)
            step["dependsOn"] = self._with_probe(task, depends)
        tests = [task.depends.when(self.infos), *_strict_tests(task, self.infos)]
        condition = task.entry.get("when")
        if condition is not None and loop is not None and mentions_item(condition.text):
            # A condition on the item is decided for each; any other once for the step.
            test = converted(condition, context, condition_to_cel)
            step["forEach"] = {**loop.for_each, "when": test or "true"}
        else:
            if condition is not None:
                tests.append(converted(condition, context, condition_to_cel) or "")
            if loop is not None:
                step["forEach"] = loop.for_each
        if any(tests):
            step["when"] = _conjunction([test for test in tests if test])
        step |= self._body(task.entry, task.name, context, info)
        if step.get("daemon") and loop is not None:
            task.entry.gap("a daemon cannot have items: write a step for each")
            del step["daemon"]
        if (continue_on := task.entry.get("continueOn")) is not None:
            failed, error = continue_on.is_true("failed"), continue_on.is_true("error")
            if error and not failed:
                continue_on.check(
                    "every failure of a job is tolerated, not only errors of the cluster"
                )
            if error:
                continue_on.check(
                    "an error of the flow itself, such as an expression without a value or a "
                    "refused job, fails the flow; Argo tolerates it"
                )
            if failed or error:
                step["continueOnFailure"] = True
        if draft.vars:
            step["vars"] = draft.vars
        return step

    def _body(self, task: Field, name: str, context: Context, info: StepInfo) -> dict[str, Any]:
        called = template_of(task, self.called.library)
        if called is None:
            reference = task.get("templateRef") or task.get("template") or task
            reference.gap("the template is in none of the files: add the file that has it")
            # The task is reported as a whole; its arguments are no faults of their own.
            for key in task.present("arguments", "template", "templateRef"):
                key.take()
            return placeholder(f"the template of {name}")
        inputs = bind(task, called, context)
        uses, template, library = self.workflow.uses, self.called.template, self.called.library
        is_loop = name in self.infos and self.infos[name].is_loop
        wanted = Wanted(
            uses.is_result_used(template, name) or uses.is_result_used(called.template, name),
            # The outputs of a loop are a list already, one of texts.
            set() if is_loop else uses.outputs(template, name, library, loops=True),
            uses.outputs(template, name, library, loops=False),
        )
        made = body_of(called, inputs, context, info, wanted, self.workflow)
        # Argo makes these outputs global for the steps after this one.
        for parameter in called.template.listed("outputs", "parameters"):
            shared, own = parameter.text_of("globalName"), parameter.text_of("name")
            if shared and own in info.outputs:
                info.outputs.setdefault(shared, info.outputs[own])
                note_global(self.context.scope, shared, info)
        return made

    def _with_probe(self, task: Task, depends: dict[str, Any]) -> dict[str, Any]:
        """Return `dependsOn` with the readiness probe of the only target, if it is a daemon."""
        for name in task.depends.tasks:
            if (probe := self.probes.get(name)) is None:
                continue
            check: dict[str, Any] = {"taskName": "main"}
            asked = data_of(probe.node) if probe.is_map else {}
            get, socket = asked.get("httpGet"), asked.get("tcpSocket")
            found = None
            if isinstance(get, dict) and isinstance(get.get("port"), int) and not get.get("host"):
                check |= {"path": get.get("path", "/"), "port": get["port"]}
                found = {"httpGetList": [check]}
            elif isinstance(socket, dict) and isinstance(socket.get("port"), int):
                found = {"tcpSocketList": [check | {"port": socket["port"]}]}
            # A probe asks all targets, and takes the place of the condition on their ends.
            if found is None or len(depends["targets"]) > 1 or task.depends.has_ends:
                probe.check("the steps after the daemon start when it runs, not when it is ready")
            else:
                return depends | {"probe": found}
        return depends

    def _hook(
        self, task: Task, info: StepInfo, name: str, hook: Field, expression: Field | None
    ) -> dict[str, Any]:
        own = StepInfo(self.context.scope.unique(f"{info.name}-{name}"))
        draft = StepDraft()
        # The hook runs however its task has ended. Only the first map of the two is written.
        steps = ChainMap({task.name: replace(info, is_sure=False)}, self.infos)  # type: ignore[arg-type]
        context = replace(self.context, draft=draft, own_name=task.name, steps=steps)
        step: dict[str, Any] = {
            "name": own.name,
            "dependsOn": {"targets": [info.name], "condition": "Finished"},
            "continueOnFailure": True,
        }
        tests = []
        # Argo runs no exit hook of a task that is skipped or omitted.
        if name == "exit":
            tests.append(f'steps[{quote(info.name)}].phase != "Skipped"')
            if info.may_be_empty:
                tests.append(f"size(steps[{quote(info.name)}].items) > 0")
        if expression is not None and (test := converted(expression, context, test_to_cel)):
            tests.append(test)
        if tests:
            step["when"] = _conjunction(tests)
        if info.is_loop:
            hook.check("runs once, after all items; in Argo it runs after each")
        if hook.is_map:
            step |= self._body(hook, own.name, context, own)
        else:
            called = self.called.library.find(hook.text)
            if called is None:
                hook.gap(f'there is no template "{hook.text}"')
                return step | placeholder(hook.text)
            inputs = bind(hook, called, context)
            step |= body_of(called, inputs, context, own, Wanted(), self.workflow)
        return _ordered(step | ({"vars": draft.vars} if draft.vars else {}))


def probes_of(tasks: Iterable[Task], library: Library) -> dict[str, Field]:
    """Return the readiness probes of the tasks that are daemons, by their names."""
    found = {}
    for task in tasks:
        called = template_of(task.entry, library)
        probe = called.template.at("container", "readinessProbe") if called else None
        if called is not None and probe is not None and called.template.is_true("daemon"):
            found[task.name] = probe
    return found


def is_conditional(task: Field) -> bool:
    """Whether a task has a condition as a whole, and not on its items."""
    condition = task.get("when")
    return condition is not None and not mentions_item(condition.text)


def mentions_item(text: str) -> bool:
    """Whether a condition is about the items of a loop."""
    return any(_ITEM.search(tag) for tag in split_tags(text)[1::2])


def _conjunction(tests: Sequence[str]) -> str:
    if len(tests) == 1:
        return tests[0]
    return " && ".join(f"({test})" if "||" in test or "?" in test else test for test in tests)


def _strict_tests(task: Task, infos: Mapping[str, StepInfo]) -> Iterator[str]:
    """Yield tests of tasks that may end, without a failure, otherwise than this one asks:
    `dependsOn` ignores a step that is not taken."""
    if task.depends.is_any or task.depends.test is not None:
        return
    for term in task.depends.terms:
        info, condition = infos[term.task], term.condition
        if info.may_end_unasked(term.accepted):
            is_end = '!= "Skipped"' if condition == "Finished" else f'== "{condition}"'
            yield f"steps[{quote(info.name)}].phase {is_end}"
        if info.may_be_empty and "Skipped" not in term.accepted:
            yield f"size(steps[{quote(info.name)}].items) > 0"


def _ordered(step: dict[str, Any]) -> dict[str, Any]:
    return {key: step[key] for key in _ORDER if key in step} | step
