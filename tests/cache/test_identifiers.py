"""One person's data is found wherever it stands."""

import pytest

from cache.identifiers import asks_own, holds_identifier, identifies_a_person, speaks_of_own


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
        "jörg@bücher.example",
        "ann(at)example.com",
        "ann.smith[at]mail[dot]org",
        "call me at 555 0147",
        "电话,13812345678",
        "139–1234–5678",
        "no.07700900123",
        "number,07700900123",
        "order #12",
        "order no 17",
        "my order 123",
        "订单号12",
        "card ending 4242",
        "尾号4242",
        "CVV 123",
        "PNR ABCDEF",
        "221B Baker Street",
        "SW1A 2AA",
        "北京市朝阳区建国路88号",
        "车牌京A12345",
        "licence plate AB12 CDE",
        "RB123456789GB",
        "1Z999AA10123456784",
        "1HGCM82633A004352",
        "203.0.113.7",
        "my username is ann99",
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
        "1, 2, 3, 4, 5, 6, 7, 8, 9, 10",
        "1,2,3,4,5,6,7,8,9,10",
        "10:30:45-11:20:30",
        "192.168.1.1",
        "chapter no. 12",
        "订单30天后",
        "two cards in 12 countries",
        "BOOKING SYSTEM",
    ],
)
def test_what_only_looks_like_it_is_not(text: str) -> None:
    assert not holds_identifier(text)


@pytest.mark.parametrize("text", ["my name is Ann", "4111 1111 1111 1111", "078-05-1120"])
def test_no_document_of_a_company_holds_it_by_itself(text: str) -> None:
    assert identifies_a_person(text)


@pytest.mark.parametrize(
    "text", ["help@shop.example", "+44 20 7946 0958", "DE89 3704 0044 0532 0130 00", "order 70415"]
)
def test_a_company_has_contacts_too(text: str) -> None:
    assert holds_identifier(text) and not identifies_a_person(text)


def test_asking_for_ones_own_thing_speaking_of_it_and_asking_how_are_three_things() -> None:
    assert asks_own("Where is my parcel?") and not asks_own("How do I send a parcel?")
    assert speaks_of_own("I mean my parcel") and not speaks_of_own("I want to insure my parcel")
    assert not speaks_of_own("How do I insure my parcel?")
