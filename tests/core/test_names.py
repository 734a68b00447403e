"""Names of vcjobs and label values."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobflow.core.names import (
    MAX_NAME,
    format_attempt_name,
    format_job_name,
    qualify_name,
    to_label_value,
)

LABEL = re.compile(r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?)?")
NAME = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?")
names = st.from_regex(NAME, fullmatch=True).filter(lambda name: len(name) <= 80)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (format_job_name("test", "a"), "test-a"),
        (format_job_name("test", "a", index=0), "test-a-0"),
        (format_job_name("test", "a", index=999), "test-a-999"),
        (format_job_name("f" * 60, "step", index=12), "f" * 60 + "-step-12"),
        (format_attempt_name("test-a", 0), "test-a"),
        (format_attempt_name("test-a-3", 2), "test-a-3-r2"),
        (format_attempt_name("flow-step", 1, room=30), "flow-step-r1"),
        (qualify_name("default", "test"), "default.test"),
    ],
)
def test_names_that_fit_are_not_shortened(name: str, expected: str):
    assert name == expected


@pytest.mark.parametrize(
    ("step", "retry", "name"),
    [
        ("s" * 58, 1, "f-" + "s" * 58 + "-r1"),
        ("s" * 59, 1, "f-" + "s" * 49 + "-6f71db1e-r1"),
        ("s" * 59, 12, "f-" + "s" * 48 + "-6f71db1e-r12"),
    ],
    ids=["fits", "one too long", "a longer number"],
)
def test_the_name_of_a_later_attempt_is_shortened_only_if_needed(step: str, retry: int, name: str):
    assert format_attempt_name(format_job_name("f", step), retry) == name
    assert len(name) <= MAX_NAME


def test_a_shortened_name_has_no_dash_before_its_hash():
    assert "--" not in format_attempt_name("f" * 49 + "-step-of-many", 1)


def test_room_for_pod_names_is_reserved():
    short = format_attempt_name("flow-" + "s" * 30, 1, room=len("-worker-0") + 20)
    assert len(short) + len("-worker-0") + 20 <= MAX_NAME


def test_a_name_is_valid_if_the_room_is_too_large():
    assert NAME.fullmatch(format_attempt_name("flow-step", 1, room=200))


indices = st.none() | st.integers(0, 999)


@given(names, names, indices, st.integers(1, 10_000), st.integers(0, 40))
def test_every_later_attempt_has_a_valid_name_that_fits(
    flow: str, step: str, index: int | None, retry: int, room: int
):
    name = format_attempt_name(format_job_name(flow, step, index=index), retry, room=room)
    assert NAME.fullmatch(name)
    assert len(name) + room <= MAX_NAME
    assert name.endswith(f"-r{retry}")


@given(names, names)
def test_attempts_of_all_runs_of_one_step_have_different_names(flow: str, step: str):
    firsts = [format_job_name(flow, step, index=index) for index in (None, 0, 1, 2, 12)]
    assert len({format_attempt_name(first, retry) for first in firsts for retry in range(12)}) == 60


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", ""),
        ("default.test", "default.test"),
        ("n" * 63, "n" * 63),
        ("n" * 64, "n" * 54 + "-ce068a19"),
        ("ns." + "f" * 100, "ns." + "f" * 51 + "-9c47f6c6"),
        ("Größe", "Gr-e-aedc3f80"),
        ("日本", "cf2abf0c"),
        ("-a", "a-c2748917"),
    ],
)
def test_a_text_is_changed_only_if_it_is_no_label_value(text: str, value: str):
    assert to_label_value(text) == value


@given(st.text(max_size=200))
def test_every_text_has_a_label_value(text: str):
    value = to_label_value(text)
    assert len(value) <= MAX_NAME
    assert LABEL.fullmatch(value)


def test_long_names_that_differ_at_the_end_have_different_label_values():
    assert to_label_value("n" * 80 + "a") != to_label_value("n" * 80 + "b")


def test_half_a_surrogate_pair_has_a_label_value_too():
    assert LABEL.fullmatch(to_label_value("\ud800"))
