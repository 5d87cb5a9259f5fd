import sys

from proxy.routing.keys import MOST_RECORDS, MOST_VALUES, WINDOW, Flaw, KeyWatch, Sighting

FIRST = Sighting(opening=1, later_turn=False)


def test_single_turn_traffic_of_many_users_is_not_called_per_request() -> None:
    watch = KeyWatch()
    assert not any(watch.see("t", "user", b"%d" % n, Sighting(n + 1, False)) for n in range(1000))


def test_later_turns_with_keys_never_seen_are() -> None:
    watch = KeyWatch()
    flaws = [watch.see("t", "user", b"%d" % n, Sighting(n + 1, True)) for n in range(60)]
    assert flaws[:49] == [None] * 49 and set(flaws[49:]) == {Flaw.PER_REQUEST}


def test_chats_that_come_back_under_their_key_are_sessions_even_when_thousands_interleave() -> None:
    watch = KeyWatch()
    for turn in range(3):
        for n in range(5000):
            assert watch.see("t", "user", b"%d" % n, Sighting(n + 1, turn > 0)) is None


def test_a_client_that_mends_its_keys_is_trusted_again() -> None:
    watch = KeyWatch()
    for n in range(100):
        watch.see("t", "user", b"%d" % n, Sighting(n + 1, True))
    flaws = [watch.see("t", "user", b"chat-%d" % (n % 20), Sighting(n % 20 + 1, n >= 20)) for n in range(300)]
    assert flaws[-1] is None


def test_one_busy_user_with_one_chat_is_not_called_global() -> None:
    watch = KeyWatch()
    assert not any(watch.see("t", "user", b"me", Sighting(7, n > 0)) for n in range(1000))


def test_one_value_over_many_chats_is_and_the_others_are_not_blamed() -> None:
    watch = KeyWatch()
    for n in range(300):
        flaw = watch.see("t", "user", b"default", Sighting(n + 1, False))
        assert (flaw is Flaw.GLOBAL) == (n >= 199)
    assert watch.see("t", "user", b"somebody else", FIRST) is None


def test_tenants_and_sources_are_judged_apart() -> None:
    watch = KeyWatch()
    for n in range(300):
        watch.see("t", "user", b"default", Sighting(n + 1, False))
    assert watch.see("u", "user", b"default", FIRST) is None
    assert watch.see("t", "prompt_cache_key", b"default", FIRST) is None


def test_memory_is_bounded_whatever_clients_send() -> None:
    watch = KeyWatch()
    for n in range(MOST_VALUES + 10_000):
        watch.see(f"t{n % 1000}", "user", b"%d" % n, Sighting(n, True))
    assert len(watch._values) == MOST_VALUES and len(watch._records) == MOST_RECORDS
    assert sys.getsizeof(watch._values) + MOST_VALUES * 32 < 16 << 20


def test_a_look_says_the_same_as_the_last_count_and_counts_nothing() -> None:
    watch = KeyWatch()
    for n in range(300):
        watch.see("t", "user", b"default", Sighting(n + 1, False))
        watch.see("t", "prompt_cache_key", b"%d" % n, Sighting(n + 1, True))
    for _ in range(WINDOW + 1):
        assert watch.peek("t", "user", b"default", FIRST) is Flaw.GLOBAL
        assert watch.peek("t", "user", b"somebody else", FIRST) is None
        assert watch.peek("t", "prompt_cache_key", b"new", Sighting(1, True)) is Flaw.PER_REQUEST
        assert watch.peek("nobody", "user", b"default", FIRST) is None
    assert watch.see("t", "user", b"default", FIRST) is Flaw.GLOBAL and len(watch._records) == 2


def test_looking_at_one_request_again_and_again_does_not_make_its_key_global() -> None:
    watch = KeyWatch()
    watch.see("t", "user", b"ann", FIRST)
    for n in range(1000):
        assert watch.peek("t", "user", b"ann", Sighting(n + 1, False)) is None
    assert watch.see("t", "user", b"ann", FIRST) is None
