"""References `$(…)` in patches: found and replaced."""

import copy
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from jobflow.api.nesting import READABLE_DEPTH
from jobflow.core.cel.references import (
    Reference,
    find_references,
    parse_reference,
    replace_references,
)
from support.laws.effort_of_laws import tries

VALUES: dict[str, Any] = {
    "params.workers": 4,
    "params.lr": 0.1,
    "params.list": [1, "a"],
    "params.none": None,
    "params.on": True,
    "item": {"lr": 0.1},
    "item.name": "ada",
    "index": 2,
    "flow.name": "f",
    "steps.a.outputs.acc": 0.9,
    "steps.a.b.outputs.x.y": "deep",
    "params.tricky": "$(index) $$(",
}


def resolve(value: Any) -> Any:
    return replace_references(value, lambda found: VALUES[found.path])


def found_in(value: Any) -> list[tuple[str, str]]:
    return [(path, found.path) for path, found in find_references(value, "patch")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$(params.workers)", 4),
        ("$(params.lr)", 0.1),
        ("$(params.list)", [1, "a"]),
        ("$(params.none)", None),
        ("$(params.on)", True),
        ("$(item)", {"lr": 0.1}),
        ("$(item.name)", "ada"),
        ("$(index)", 2),
        ("$(flow.name)-$(index)", "f-2"),
        ("--lr=$(params.lr) --on=$(params.on)", "--lr=0.1 --on=true"),
        ("$(params.list) $(item) $(params.none)", '[1,"a"] {"lr":0.1} null'),
        ("$(steps.a.outputs.acc)", 0.9),
        ("$(steps.a.b.outputs.x.y)", "deep"),
        (" $(index)", " 2"),
        ("$$(index)", "$(index)"),
        ("$$$(index)", "$$(index)"),
        ("$$(index) and $(index)", "$(index) and 2"),
        ("$(params.tricky)", "$(index) $$("),
        ("a $(params.tricky)", "a $(index) $$("),
        ("$(POD_NAME)", "$(POD_NAME)"),
        ("$(date +%s) $(index )", "$(date +%s) $(index )"),
        ("$(params)", "$(params)"),
        ("$(items) $(indexes) $(flow) $(steps)", "$(items) $(indexes) $(flow) $(steps)"),
        ("${params.workers} $params.workers", "${params.workers} $params.workers"),
        ("$(param.x) $(Item)", "$(param.x) $(Item)"),
        ("cat $(ls $(index))", "cat $(ls 2)"),
        ("no reference, 5 $", "no reference, 5 $"),
        ("$(params.workers", "$(params.workers"),
    ],
)
def test_references_in_a_text_are_replaced(text: str, expected: Any) -> None:
    assert resolve(text) == expected
    assert type(resolve(text)) is type(expected)


@pytest.mark.parametrize(
    ("path", "root", "keys"),
    [
        ("item", "item", ()),
        ("index", "index", ()),
        ("params.x", "params", ("x",)),
        ("params.x.y.0", "params", ("x", "y", "0")),
        ("params.", "params", ("",)),
        ("item.a-b", "item", ("a-b",)),
        ("steps.x.outputs", "steps", ("x", "outputs")),
        ("steps.x.outputs.y.z", "steps", ("x", "outputs", "y", "z")),
        ("steps.x.y.outputs.z", "steps", ("x.y", "outputs", "z")),
        ("steps.x.outputs.outputs.z", "steps", ("x", "outputs", "outputs", "z")),
        ("steps.x.output.y", "steps", ("x.output.y",)),
        ("steps.x.phase", "steps", ("x", "phase")),
        ("steps.x.y.reason", "steps", ("x.y", "reason")),
        ("steps.job.job", "steps", ("job", "job")),
        ("steps.x.phase.outputs.job", "steps", ("x.phase", "outputs", "job")),
        ("steps.x.job.y", "steps", ("x.job.y",)),
        ("steps.x.failure", "steps", ("x", "failure")),
        ("steps.x.y.failure.reason", "steps", ("x.y", "failure", "reason")),
        ("steps.failure.failure", "steps", ("failure", "failure")),
        ("steps.", "steps", ("",)),
    ],
)
def test_the_path_of_a_reference_is_parsed(path: str, root: str, keys: tuple[str, ...]) -> None:
    assert parse_reference(path) == Reference(path, root, keys)


def test_references_are_found_with_their_places() -> None:
    patch = {
        "queue": "$(params.q)",
        "tasks": [
            {"name": "a", "replicas": "$(params.n)"},
            {"template": {"metadata": {"labels": {"x.io/y": "$(item) $(index) $$(index)"}}}},
        ],
        "$(params.key)": 1,
    }
    assert found_in(patch) == [
        ("patch.queue", "params.q"),
        ("patch.tasks[0].replicas", "params.n"),
        ("patch.tasks[1].template.metadata.labels[x.io/y]", "item"),
        ("patch.tasks[1].template.metadata.labels[x.io/y]", "index"),
    ]


def test_values_of_text_fields_are_converted_to_text() -> None:
    pod = {
        "metadata": {"labels": {"n": "$(index)"}, "annotations": {"i": "$(item)"}},
        "spec": {
            "nodeSelector": {"rack": "$(index)"},
            "priority": "$(index)",
            "containers": [
                {
                    "name": "$(index)",
                    "args": ["$(params.lr)", "--on", "$(params.on)"],
                    "env": [{"name": "N", "value": "$(params.workers)"}],
                    "ports": [{"containerPort": "$(params.workers)"}],
                    "resources": {"requests": {"cpu": "$(params.workers)"}},
                }
            ],
        },
    }
    patch = {
        "queue": "$(index)",
        "minAvailable": "$(index)",
        "plugins": {"env": ["$(index)"], "svc": "$(params.list)"},
        "tasks": [{"name": "w", "replicas": "$(params.workers)", "template": pod}],
    }
    container = {
        "name": "2",
        "args": ["0.1", "--on", "true"],
        "env": [{"name": "N", "value": "4"}],
        "ports": [{"containerPort": 4}],
        "resources": {"requests": {"cpu": 4}},
    }
    assert resolve(patch) == {
        "queue": "2",
        "minAvailable": 2,
        "plugins": {"env": ["2"], "svc": ["1", "a"]},
        "tasks": [
            {
                "name": "w",
                "replicas": 4,
                "template": {
                    "metadata": {"labels": {"n": "2"}, "annotations": {"i": '{"lr":0.1}'}},
                    "spec": {
                        "nodeSelector": {"rack": "2"},
                        "priority": 2,
                        "containers": [container],
                    },
                },
            }
        ],
    }
    assert resolve({"env": [{"name": "N", "value": "$(params.none)"}]}) == {
        "env": [{"name": "N", "value": None}]
    }


def test_an_unknown_reference_raises() -> None:
    with pytest.raises(KeyError):
        resolve({"a": ["$(params.unknown)"]})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from([*map("$({})".format, VALUES)])
    | st.text("$()a.index params", max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=15,
)  # fmt: skip


@tries(100)
@given(JSON)
@example({"a": {"$(index)": "$(index)"}})
def test_exactly_the_found_references_are_looked_up(value: Any) -> None:
    before, paths = copy.deepcopy(value), []

    def answer(found: Reference) -> Any:
        paths.append(found.path)
        return "seen"

    result = replace_references(value, answer)
    assert sorted(paths) == sorted(path for _, path in found_in(value))
    assert value == before
    if not paths and "$$(" not in str(value):
        assert result == value


def test_references_may_be_nested_deep() -> None:
    deep: Any = "$(index)"
    for _ in range(READABLE_DEPTH):
        deep = [deep]
    result = resolve(deep)
    for _ in range(READABLE_DEPTH):
        (result,) = result
    assert result == 2
    assert len(list(find_references(deep[0][0], ""))) == 1
