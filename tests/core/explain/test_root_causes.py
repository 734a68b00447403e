"""Root causes in `jobflow why`: long chains, many causes and cycles."""

import pytest

from support.plan.plan_world import flow
from support.plan.sentences import why


@pytest.mark.no_cover
def test_a_chain_of_5000_steps_shows_both_ends() -> None:
    world = flow("s0", **{f"s{i}": f"s{i - 1}" for i in range(1, 5000)}).without_template("s0")
    world = world.settled().later(30)
    sentences = why(world, "s4999")
    assert sentences[1] == (
        "s4998 waits for s4997, which waits for s4996, and so on through 4,995 more steps to s0."
    )
    assert len(" ".join(sentences)) < 600 and len(" ".join(why(world))) < 600


@pytest.mark.parametrize(
    ("steps", "sentence"),
    [
        (3, "s1 waits for s0."),
        (4, "s2 waits for s1, which waits for s0."),
        (5, "s3 waits for s2, which waits for s1, which waits for s0."),
        (6, "s4 waits for s3, which waits for s2, and so on through 1 more step to s0."),
        (7, "s5 waits for s4, which waits for s3, and so on through 2 more steps to s0."),
    ],
)
def test_a_long_chain_is_shortened_in_the_middle(steps: int, sentence: str) -> None:
    chain = {f"s{i}": f"s{i - 1}" for i in range(1, steps)}
    world = flow("s0", **chain).without_template("s0").settled()
    assert why(world, f"s{steps - 1}")[1] == sentence


def test_further_root_causes_are_counted() -> None:
    def causes(entries: str) -> list[str]:
        world = flow(*entries.split(), join=entries).settled()
        world = world.with_jobs(**dict.fromkeys(entries.split(), "Running")).settled()
        return why(world, "join")

    steps = [sentence.partition(" has been Running")[0] for sentence in causes("a b c d e")[1:-1]]
    assert steps == ["Step a", "Step b", "Step c"]
    assert causes("a b c d e")[-1] == "2 more steps also block it."
    assert causes("a b c d")[-1] == "1 more step also blocks it."
    assert causes("a b c")[-1].startswith("Step c has been Running")


@pytest.mark.long
@pytest.mark.no_cover
def test_5000_root_causes_are_counted() -> None:
    entries = [f"s{i}" for i in range(4999)]
    world = flow(*entries, join=" ".join(entries)).settled()
    world = world.with_jobs(**dict.fromkeys(entries, "Running")).settled()
    assert why(world, "join")[-1] == "4,996 more steps also block it."
    assert len(" ".join(why(world, "join"))) < 1000 and len(" ".join(why(world))) < 1000


def test_a_cycle_is_shown() -> None:
    """Volcano's controller starts such a flow if it was stored without the webhook."""
    world = flow("z", a="z c", b="a", c="b", d="c").with_jobs(z="Running").settled().later(9)
    [waits, *_, cycle] = why(world, "d")
    assert "Blocked" in waits
    assert cycle == "These steps wait for each other: a -> b -> c -> a."
    assert any("9s" in sentence for sentence in why(world))


def test_a_flow_that_has_ended_with_a_cycle_is_submitted_again() -> None:
    world = flow("z", a="b", b="a").with_jobs(z="Completed").settled().later(9)
    summary, *_, remedy = why(world)
    assert "JobFlow f is Failed" in summary
    assert remedy == (
        "Correct its file, and submit it under another name: "
        "`jobflow submit FILE --name f-2 -n ns`."
    )
