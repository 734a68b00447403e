"""Objects in files, and the place of each JSON path in the text."""

import io

import pytest

from jobflow.client.manifests.objects import Manifest, Manifests, load

FLOW = """\
apiVersion: flow.volcano.sh/v1alpha1
kind: JobFlow
metadata:
  name: test
  annotations:
    example.com/a.b: "1"
spec:
  flows:
    - name: a
    - dependsOn:
        targets: [a, b]
      name: c
"""


def load_text(text: str) -> Manifests:
    return load(["-"], io.BytesIO(text.encode()))


def load_one(text: str) -> Manifest:
    (manifest,) = load_text(text).objects
    return manifest


def faults_of(text: str) -> list[str]:
    return [f"{fault.place}: {fault.reason}: {fault.message}" for fault in load_text(text).faults]


@pytest.mark.parametrize(
    ("path", "line", "column", "width"),
    [
        ("", 1, 1, 1),
        ("kind", 2, 7, 7),
        ("metadata", 3, 1, 8),
        ("metadata.name", 4, 9, 4),
        ("metadata.annotations[example.com/a.b]", 6, 22, 3),
        ("metadata.annotations.example.com/a.b", 6, 22, 3),
        ("metadata.labels", 3, 1, 8),
        ("spec.flows", 8, 3, 5),
        ("spec.flows[0].name", 9, 13, 1),
        ("spec.flows[1].dependsOn.targets[1]", 11, 22, 1),
        ("spec.flows[1].dependsOn.targets[7]", 11, 9, 7),
        ("spec.flows[1].dependsOn.strategy", 10, 7, 9),
        ("spec.flows[1].name.what[3]", 12, 7, 4),
        ("spec.flows[x].name", 8, 3, 5),
        ("spec.flows[0].dependsOn", 9, 7, 1),
        ("nothing.of.it", 1, 1, 1),
    ],
)
def test_a_path_has_a_place(path: str, line: int, column: int, width: int) -> None:
    place = load_one(FLOW).place(path)
    assert (place.line, place.column, place.width) == (line, column, width)


def test_an_unknown_field_is_at_its_key() -> None:
    assert str(load_one(FLOW).place("metadata.name", of_key=True)) == "<stdin>:4:3"


def test_the_value_of_an_alias_is_at_its_anchor() -> None:
    manifest = load_one("kind: A\nx: &x\n  b: 1\nspec:\n  <<: *x\n")
    assert str(manifest.place("spec.b")) == "<stdin>:3:6"


def test_a_misspelled_key_is_also_found_by_its_correct_name() -> None:
    manifest = load_one(FLOW.replace("flows:", "Flows:"))
    manifest.add_alias("spec.Flows", "flows")
    assert str(manifest.place("spec.flows[0].name")) == "<stdin>:9:13"
    manifest.add_alias("spec.nothing", "something")
    assert str(manifest.place("spec.something")) == "<stdin>:7:1"


def test_places_in_later_documents_have_the_line_of_the_file() -> None:
    first, second = load_text(f"---\n{FLOW}---\n{FLOW}").objects
    assert (first.place("kind").line, second.place("kind").line) == (3, 16)


def test_the_objects_of_a_list_are_separate_objects() -> None:
    found = load_text("kind: List\nitems:\n- kind: A\n- kind: JobFlowList\n  items:\n  - kind: B\n")
    assert [manifest.kind for manifest in found.objects] == ["A", "B"]
    assert str(found.objects[1].place("kind")) == "<stdin>:6:11"


@pytest.mark.parametrize("text", ["kind: List", "kind: List\nitems: 5", "items: []\nkind: 5"])
def test_a_list_without_items_is_an_object(text: str) -> None:
    assert len(load_text(text).objects) == 1


NO_OBJECT = "not a Kubernetes object: write a mapping with apiVersion, kind, metadata and spec"


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("", ["<stdin>: Unreadable: contains no object"]),
        ("# nothing\n---\n", ["<stdin>: Unreadable: contains no object"]),
        ("just text", [f"<stdin>:1:1: Unreadable: {NO_OBJECT}"]),
        ("[1]", [f"<stdin>:1:1: Unreadable: {NO_OBJECT}"]),
        ("kind: List\nitems: [5]", [f"<stdin>:2:9: Unreadable: {NO_OBJECT}"]),
        (
            "---\na: @",
            ["<stdin>:2:4: Unreadable: not YAML: no value begins with @; put it in quotes"],
        ),
    ],
)
def test_text_without_an_object_is_a_fault(text: str, faults: list[str]) -> None:
    assert faults_of(text) == faults


def test_duplicates_have_paths_and_are_reported_once() -> None:
    manifest = load_one("a: &x\n- b: 1\n  b: 2\nc: *x\nd:\n  e.f:\n    g: 1\n    g: 2\n")
    found = [(path, str(place)) for path, _, place in manifest.duplicates()]
    assert found == [("a[0].b", "<stdin>:3:3"), ("d[e.f].g", "<stdin>:8:5")]


def test_keys_without_quotes_that_are_booleans_have_paths() -> None:
    manifest = load_one('a: {n: 1, "y": 2, true: 3}\nb:\n- On: 1\n  x: {Y: 1}\n')
    found = [(path, written, str(place)) for path, written, _, place in manifest.misread_keys()]
    assert found == [
        ("a.false", "n", "<stdin>:1:5"),
        ("b[0].true", "On", "<stdin>:3:3"),
        ("b[0].x.true", "Y", "<stdin>:4:7"),
    ]


@pytest.mark.parametrize("metadata", ["5", "[a]", "{name: 5, namespace: [x]}", "~"])
def test_metadata_of_any_shape_has_no_name(metadata: str) -> None:
    manifest = load_one(f"metadata: {metadata}")
    assert (manifest.name, manifest.namespace) == ("", "default")
