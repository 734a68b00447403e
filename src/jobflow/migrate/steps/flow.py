"""A dag or steps template as the steps of a flow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jobflow.migrate.context import Context
from jobflow.migrate.expressions.cel import condition_to_cel, expression_to_ref
from jobflow.migrate.expressions.values import Kind, UnsupportedExpression, as_ref, whole
from jobflow.migrate.fields import Field, TooLargeError
from jobflow.migrate.scopes import StepInfo, identifier
from jobflow.migrate.steps import dependencies
from jobflow.migrate.steps.bodies import AGAIN, NEXT, Workflow, calls, report_template
from jobflow.migrate.steps.control import converted, has_items
from jobflow.migrate.steps.parameters import bind, report_artifacts
from jobflow.migrate.steps.task import Task, TaskWriter, is_conditional, probes_of
from jobflow.migrate.templates import Called, Library, template_of


def write_flow(
    called: Called, context: Context, workflow: Workflow, *, targets: bool = False
) -> dict[str, Any]:
    """Return the fields of a flow for a template. With `targets`, `target` of a dag becomes
    `targets` and not a smaller flow. Infos of the steps are added to the dict `context.steps`."""
    template = called.template
    workflow.stack.append(called.name)
    report_template(template, is_entrypoint=len(workflow.stack) == 1)
    tasks = _tasks(template)
    chosen = template.text_of("dag", "target").split()
    # Only the outermost flow has targets.
    if chosen and not targets:
        by_name, needed, pending = {task.name: task for task in tasks}, set[str](), [*chosen]
        while pending:
            name = pending.pop()
            if name in by_name and name not in needed:
                needed.add(name)
                pending += by_name[name].depends.tasks
        tasks = [task for task in tasks if task.name in needed]
    again = _take_recursion(tasks, called, context)
    infos: dict[str, StepInfo] = context.steps  # type: ignore[assignment]
    # All names first, because tasks name each other in any order.
    for task in tasks:
        if task.name in infos:
            task.entry.gap(f'"{task.name}" is the name of another task too: rename one of them')
        infos[task.name] = StepInfo(
            context.scope.unique(task.name),
            is_loop=has_items(task.entry),
            may_be_empty=has_items(task.entry) and task.entry.get("withItems") is None,
            is_taken=not is_conditional(task.entry),
            is_tolerated=task.entry.get("continueOn") is not None,
        )
    flow: dict[str, Any] = {"flows": []}
    if chosen and targets:
        flow["targets"] = [infos[name].name for name in chosen if name in infos]
    _note_skipped(tasks, infos, called.library)
    _forgive(called, tasks)
    _note_ends(tasks, infos)
    writer = TaskWriter(workflow, called, context, infos, probes_of(tasks, called.library))
    for task in tasks:
        flow["flows"] += writer.steps(task)
    flow |= _policies(template, tasks)
    if outputs := _outputs(called, context, again):
        flow["outputs"] = outputs
    report_artifacts(template, "outputs")
    workflow.stack.pop()
    return flow


def _policies(template: Field, tasks: Sequence[Task]) -> dict[str, Any]:
    found = dict[str, Any]()
    limit = template.get("parallelism")
    number = whole(limit.text) if limit is not None else None
    if number is not None:
        found["parallelism"] = number
    elif limit is not None:
        limit.gap("the number is not known before the flow runs: write it")
    fail_fast = template.text_of("dag", "failFast") or template.text_of("failFast")
    # A task that asks for a failure would never run in a flow that stops at it.
    continues = any(task.depends.has_ends or task.is_forgiven for task in tasks)
    if continues or fail_fast == "false":
        found["failurePolicy"] = "Continue"
    return found


def _outputs(called: Called, context: Context, again: Field | None) -> dict[str, str]:
    found: dict[str, str] = {}
    for parameter in called.template.listed("outputs", "parameters"):
        cel = _output(parameter, context)
        if cel is not None:
            found[identifier(parameter.text_of("name"))] = cel
    for name, ref in context.scope.outputs.items():
        # The step may not have run, and an expression without a value fails the flow.
        cel = ref.or_else.replace("%s", "null") if ref.may_lack else ref.cel
        found.setdefault(identifier(name), cel)
    if again is not None:
        condition = again.get("when")
        found[AGAIN] = "true"
        if condition is not None:
            found[AGAIN] = converted(condition, context, condition_to_cel) or "false"
        for name, text in bind(again, called, context).items():
            cel, before = as_ref(text).cel, as_ref(context.inputs[name]).cel
            if cel != before:
                found[f"{NEXT}{identifier(name)}"] = cel
    return found


def _output(parameter: Field, context: Context) -> str | None:
    source, value = parameter.get("valueFrom"), parameter.get("value")
    if source is None:
        return as_ref(context.text(value)).cel if value is not None else None
    default = source.get("default")
    if (reference := source.get("parameter")) is not None:
        ref = as_ref(context.text(reference, must_exist=default is None))
    elif (expression := source.get("expression")) is not None:
        found = converted(expression, context, expression_to_ref)
        if found is None:
            return None
        ref = found
    else:
        source.gap("has no equal for an output of a flow: write an expression in outputs")
        return None
    if default is not None and ref.or_else:
        return ref.or_else.replace("%s", as_ref(context.text(default)).cel)
    if default is not None:
        default.check("the default is left out: write it with get(…) in outputs")
    return ref.raw if ref.kind is Kind.PHASE and not ref.cel else ref.cel


def _tasks(template: Field) -> list[Task]:
    """Return the tasks of a dag, or the steps of all groups; each waits for the group before."""
    found, before = list[Task](), list[str]()
    if template.get("dag") is None:
        for group in template.listed("steps"):
            # A step alone is a group of one.
            entries = group.items() if group.is_list else [group]
            after = [Task(e.text_of("name"), e, dependencies.after(before)) for e in entries]
            found += after
            before = [each.name for each in after] or before
        return found
    listed = template.listed("dag", "tasks")
    loops = {each.text_of("name") for each in listed if has_items(each)}
    conditional = {each.text_of("name") for each in listed if is_conditional(each)}
    for task in listed:
        name, names, depends = task.text_of("name"), task.get("dependencies"), task.get("depends")
        own = dependencies.Dependencies()
        if names is not None:
            own = dependencies.after([str(each) for each in names.data])
        elif depends is not None:
            try:
                own = dependencies.parse_depends(depends.text, loops=loops, conditional=conditional)
            except UnsupportedExpression as error:
                depends.gap(str(error))
        found.append(Task(name, task, own))
    return found


def _take_recursion(tasks: list[Task], called: Called, context: Context) -> Field | None:
    """Take the task that calls its own template from the end of the tasks, and return it."""
    own = [task for task in tasks if calls(task.entry, called)]
    # Only a whole flow repeats, at its end, and the outermost one is no step.
    if len(own) != 1 or has_items(own[0].entry) or context.scope.parent is None:
        return None
    if any(own[0].name in task.depends.tasks for task in tasks):
        return None
    tasks.remove(own[0])
    return own[0].entry


def _note_skipped(tasks: Sequence[Task], infos: Mapping[str, StepInfo], library: Library) -> None:
    """Note which tasks follow only tasks that may be skipped: Argo runs these all the same."""
    by_name = {task.name: task for task in tasks}
    for task in tasks:
        for name in task.depends.tasks:
            if name not in by_name:
                task.entry.gap(f'it depends on "{name}", which is no task of this template')
                task.depends.test = None
        task.depends.terms = [term for term in task.depends.terms if term.task in by_name]
    for task in tasks:
        needs = task.depends.tasks
        # Skipped targets would let a step run that waits for any of them.
        taken = [_is_taken(name, by_name) for name in needs]
        if not all(taken):
            task.depends.wait_for_all()
        task.depends.may_follow_none = bool(needs) and not any(taken)
        for name in needs if task.depends.may_follow_none else ():
            target = template_of(by_name[name].entry, library)
            infos[name].is_daemon = target is not None and target.template.is_true("daemon")
            if infos[name].is_daemon:
                task.entry.check(f"it is skipped if the daemon {name} is; in Argo it runs")


def _is_taken(name: str, by_name: Mapping[str, Task]) -> bool:
    """Whether a task is never skipped while nothing fails."""
    task = by_name[name]
    return not is_conditional(task.entry) and not any(
        term.ends and "Succeeded" not in term.ends for term in task.depends.terms
    )


def _forgive(called: Called, tasks: Sequence[Task]) -> None:
    """Mark the tasks whose failure does not fail Argo's workflow. Tasks behind them run only if
    they ask for that."""
    try:
        names = dependencies.forgiven({task.name: task.depends for task in tasks})
    except TooLargeError:
        called.template.check(
            "has too many dependencies to find out which failures do not fail the workflow: set "
            "continueOnFailure of such steps"
        )
        return
    by_name = {task.name: task for task in tasks}
    for task in tasks:
        task.is_forgiven = task.name in names
        depends = task.entry.get("depends")
        for name in (each.task for each in task.depends.terms if "AnySucceeded" in each.ends):
            if depends is not None and name not in names:
                depends.check(f"the flow fails if an item of {name} fails; in Argo only if all do")
    # A tolerated failure lets all tasks behind it run, also those that do not ask for that.
    for task in tasks:
        terms = task.depends.terms if task.depends.test is None else []
        for term in [each for each in terms if each.condition == "Completed"]:
            before = by_name[term.task]
            is_strict = term.ends and before.entry.get("continueOn") is not None
            if before.is_forgiven or is_strict:
                task.depends.require_success(term)
            if is_strict and not before.is_forgiven:
                task.entry.check(
                    f"the flow succeeds if {term.task} fails; Argo's may fail, as {task.name} is "
                    "omitted"
                )


def _note_ends(tasks: Sequence[Task], infos: Mapping[str, StepInfo]) -> None:
    """Note which tasks may be omitted though nothing fails, and which may have no outputs when a
    task behind them runs, or when the flow has succeeded."""
    by_name = {task.name: task for task in tasks}
    order = [
        by_name[name] for name in dependencies.in_order({n: t.depends for n, t in by_name.items()})
    ]
    for task in order:
        depends, info = task.depends, infos[task.name]
        info.may_be_omitted = depends.test is not None or any(
            (term.ends and "Succeeded" not in term.ends)
            or (not depends.is_any and infos[term.task].may_end_unasked(term.accepted))
            for term in depends.terms
        )
        info.is_sure = info.is_taken and not info.may_be_omitted
    # Backwards, because a task survives what the tasks behind it survive.
    for task in reversed(order):
        info, needed = infos[task.name], task.depends.required()
        info.is_survived |= task.is_forgiven or info.is_tolerated
        info.is_sure &= not info.is_survived
        for name in task.depends.tasks:
            infos[name].is_survived |= info.is_survived or name not in needed
