"""Complaints about signs, versions and units: a small sign was another thing, and the cache did not look at it."""

import pytest

from cache.guards import first_objection
from cache.guards.quantities import han_value


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Does Ruby 2.10 run here?", "Does Ruby 2.1 run here?"),
        ("Is iOS 17.1 stable?", "Is iOS 17.10 stable?"),
        ("Is release 2 signed?", "Is release 2.0 signed?"),
        ("版本3.10支持吗?", "版本3.1支持吗?"),
        ("Is 7 mW much?", "Is 7 MW much?"),
        ("Is 20 Mb plenty?", "Is 20 MB plenty?"),
        ("How do I type ≈ on Linux?", "How can I type ≠ on Linux?"),
        ("What does ∀ mean in logic?", "What does ∃ mean in logic?"),
        ("Is it ±3 mm thick?", "Is it 3 mm thick?"),
        ("👍什么意思?", "👎什么意思?"),
        ("9×3等于几?", "9÷3等于几?"),
        ("y²的图像?", "y³的图像?"),
        ("√25等于几?", "25等于几?"),
        ("Is –9 °C fine for the tyre?", "Is 9 °C fine for tyres?"),
        ("两万三够吗", "两万零三够吗"),
        ("Is the lid removable?", "Is the lid removed?"),
        ("Is rent deductible?", "Is rent deducted?"),
        ("How do I change my laptop?", "How do I update my laptop?"),
        ("How do I raise a complaint?", "How do I increase a complaint?"),
        ("怎么换电脑?", "怎么修改电脑?"),
        ("收货地址在哪填?", "发货地址在哪填?"),
        ("请律师要多少钱?", "律师要多少钱?"),
        ("How do I type ? on a Mac", "How do I type ! on a Mac"),
    ],
)
def test_a_sign_a_version_or_a_unit_was_not_the_same(one: str, other: str) -> None:
    assert first_objection(one, other) is not None
    assert first_objection(other, one) is not None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Is 5 gb enough?", "Is 5 GB enough?"),
        ("Does it cost 5.0 dollars?", "Does it cost 5 dollars?"),
        ("How do I change my address?", "How do I update my address?"),
        ("怎么换密码?", "怎么修改密码?"),
        ("Is e-mail support free?", "Is email support free?"),
        ("Is it open, or not?", "Is it open or not?"),
    ],
)
def test_what_is_only_written_otherwise_is_served(one: str, other: str) -> None:
    assert first_objection(one, other) is None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("三百五", 350),
        ("三百零五", 305),
        ("一万五", 15_000),
        ("一万零五", 10_005),
        ("两千三", 2300),
        ("一百二十五", 125),
        ("十五", 15),
        ("五百", 500),
        ("三亿二", 320_000_000),
    ],
)
def test_a_last_digit_counts_the_next_lower_scale(text: str, value: int) -> None:
    assert han_value(text) == value
