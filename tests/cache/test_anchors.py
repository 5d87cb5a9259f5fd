"""Which known answer does a question ask for? Learned from vectors; what is known of nobody is said of nobody."""

import io

import numpy as np
import pytest
from entries import vector_of

from cache.anchors import FLOOR, LEAST, Anchors, Floats, agreement, fit, from_bytes

DIM = 16


def around(name: str, count: int, *, spread: float = 0.5, seed: int = 0) -> Floats:
    """Unit vectors around the one of this name."""
    noise = np.random.default_rng([seed, *name.encode()]).standard_normal((count, DIM)).astype(np.float32)
    moved = vector_of(name, DIM) + np.float32(spread / np.sqrt(DIM)) * noise
    return moved / np.linalg.norm(moved, axis=1, keepdims=True)


def world(names: tuple[str, ...] = ("reset", "refund", "hours"), count: int = 6) -> tuple[Floats, list[str]]:
    return np.vstack([around(name, count) for name in names]), [name for name in names for _ in range(count)]


def test_a_new_wording_asks_for_the_answer_of_its_like() -> None:
    vectors, answers = world()
    anchors = fit(vectors, answers)
    assert anchors is not None
    known = sorted(set(answers))
    for name in known:
        chances = anchors.chances(around(name, 20, seed=1))
        assert (chances.argmax(axis=1) == known.index(name)).all()
        assert ((chances >= 0) & (chances.sum(axis=1, keepdims=True) <= 1 + 1e-6)).all(), "the rest is something else"


def test_two_questions_agree_as_far_as_both_ask_for_the_same() -> None:
    vectors, answers = world()
    anchors = fit(vectors, answers)
    assert anchors is not None
    one, same, other = (anchors.chances(around(name, 1, seed=2))[0] for name in ("reset", "reset", "refund"))
    close, far = agreement(one, np.stack([same, other]))
    assert close > far
    assert agreement(one, np.stack([other]))[0] == pytest.approx(agreement(other, np.stack([one]))[0], abs=1e-5)


def test_what_is_known_of_nobody_has_no_answer_in_common() -> None:
    nothing = np.zeros(3, np.float32)
    assert agreement(nothing, np.stack([nothing, np.eye(3, dtype=np.float32)[0]])) == pytest.approx(np.log(FLOOR))
    assert agreement(np.eye(3, dtype=np.float32)[0], np.zeros((0, 3), np.float32)).shape == (0,)


def test_what_is_asked_once_belongs_to_something_else() -> None:
    vectors, answers = world()
    rare = np.vstack([vectors, around("once", LEAST - 1)])
    anchors = fit(rare, [*answers, "once"])
    assert anchors is not None
    assert anchors.weights.shape == (DIM + 1, 1 + 3)
    once, reset = anchors.chances(around("once", 10, seed=3)), anchors.chances(around("reset", 10, seed=3))
    assert once.max(axis=1).mean() < reset.max(axis=1).mean()


@pytest.mark.parametrize("answers", [[], ["a"], ["a", "a", "a"], ["a", "b", "c"], ["a", "a", "b"]])
def test_fewer_than_two_answers_with_enough_questions_teach_nothing(answers: list[str]) -> None:
    vectors = np.stack([vector_of(f"{n}", DIM) for n in range(len(answers))]) if answers else np.zeros((0, DIM), "f4")
    assert fit(vectors, answers) is None


def test_the_same_labels_teach_the_same_whatever_the_answers_are_called() -> None:
    vectors, answers = world()
    one, two = fit(vectors, answers), fit(vectors, [f"x-{answer}" for answer in answers])
    assert one is not None and two is not None
    assert np.array_equal(one.weights, two.weights)


def test_a_thousand_equal_questions_stay_finite() -> None:
    vectors = np.repeat(np.stack([vector_of("a", DIM), vector_of("b", DIM)]), 500, axis=0)
    anchors = fit(vectors, ["a"] * 500 + ["b"] * 500)
    assert anchors is not None
    assert np.isfinite(anchors.weights).all()
    assert anchors.chances(vectors)[0, 0] > 0.9


# ── on disk ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_anchors_come_back_as_they_were_written() -> None:
    anchors = fit(*world())
    assert anchors is not None
    back = from_bytes(anchors.to_bytes())
    assert np.array_equal(back.weights, anchors.weights) and back.weights.dtype == np.float32


def _saved(**arrays: np.ndarray) -> bytes:
    out = io.BytesIO()
    np.savez(out, **arrays)  # type: ignore[arg-type]
    return out.getvalue()


def _plain() -> bytes:
    out = io.BytesIO()
    np.save(out, np.zeros((3, 2), np.float32))
    return out.getvalue()


WHOLE = Anchors(np.zeros((3, 2), np.float32)).to_bytes()


@pytest.mark.parametrize(
    "raw",
    [
        b"", b"no", b"PK\x03\x04 and no more", WHOLE[: len(WHOLE) // 2], WHOLE[:-10], _plain(),
        _saved(other=np.zeros(3)), _saved(weights=np.zeros(3)), _saved(weights=np.full((2, 2), np.nan)),
        _saved(weights=np.array([["a"]])), WHOLE[:60] + b"\xff" * 20 + WHOLE[80:],
    ],
)  # fmt: skip
def test_what_is_no_anchors_is_one_kind_of_error(raw: bytes) -> None:
    with pytest.raises(ValueError, match=r"\w+"):
        from_bytes(raw)


def test_nothing_in_the_file_is_run() -> None:
    out = io.BytesIO()
    np.savez(out, weights=np.array([[print]], dtype=object))
    with pytest.raises(ValueError, match="allow_pickle"):
        from_bytes(out.getvalue())
