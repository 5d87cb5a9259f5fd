import pytest

from proxy.routing.choice import Choice, Kind
from proxy.routing.worker import Worker

WORKER = Worker("http://10.0.0.5:8000")


def test_a_reason_says_what_is_there_and_who_says_so() -> None:
    choice = Choice(WORKER, Kind.HOME, "session: at home", 1400, 1234, "by its KV events")
    assert choice.reason == "session: at home; 1234 of 1400 prompt tokens are there (by its KV events)"


@pytest.mark.parametrize("tokens", [0, 900])
def test_where_nothing_is_known_to_be_there_nothing_is_said_of_it(tokens: int) -> None:
    assert Choice(WORKER, Kind.CHEAPEST, "cheapest (0 of 3 requests in hand)", tokens).reason == (
        "cheapest (0 of 3 requests in hand)"
    )


def test_kinds_are_few_enough_for_a_label() -> None:
    assert len(Kind) <= 8 and all(kind == kind.value for kind in Kind)
