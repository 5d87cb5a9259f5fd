"""One person's data is found wherever it stands."""

import pytest

from cache.identifiers import holds_identifier


@pytest.mark.parametrize(
    "text",
    [
        "ann.smith+x@mail.example.org",
        "johndoe at gmail dot com",
        "+44 20 7946 0958",
        "(212) 555-0147 ext 3",
        "13812345678",
        "4111 1111 1111 1111",
        "4111-1111-1111-1111",
        "GB82 WEST 1234 5698 7654 32",
        "078-05-1120",
        "11010519491231002X",
        "order 70415",
        "Order #A-1234",
        "invoice no. 2024",
        "订单号：70415",
        "my name is Ann",
        "我的电话是多少多少号，1381234567",
    ],
)
def test_it_is_found(text: str) -> None:
    assert holds_identifier(f"Well, {text}.")


@pytest.mark.parametrize(
    "text",
    [
        "1,000,000,000 grains",
        "$1000000000",
        "2024-05-03 and 03/05/2024",
        "version 1.2.3",
        "policy 1984",
        "error 40415",
        "4111 1111 1111 1112",
        "my name is wrong on the card",
        "ann @ the door",
    ],
)
def test_what_only_looks_like_it_is_not(text: str) -> None:
    assert not holds_identifier(text)
