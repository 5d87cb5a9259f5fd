"""Which workers there should be, by several sources."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.routing.roster import (
    MOST_WORKERS,
    Addresses,
    Deed,
    Listed,
    Roster,
    Source,
    dns_name,
    listed,
    listed_in,
    orphaned,
    resolved,
    split_dns,
)
from proxy.routing.workers import State, Worker, WorkerPool

A, B, C = (Listed(f"http://{name}:1") for name in "abc")


def apply(roster: Roster, pool: WorkerPool) -> list[str]:
    """Take every step, as the membership does. Returns them as words."""
    steps = roster.steps(pool)
    names = {pool.at(step.listed.url): step.listed.name for step in steps if step.deed is Deed.RENAME}
    for step in steps:
        worker = pool.at(step.listed.url)
        if step.deed is Deed.RENAME:
            pool.rename(names)
            continue
        if step.deed is Deed.ADD:
            pool.add(Worker(step.listed.url, step.listed.name))
            continue
        assert worker is not None
        if step.deed is Deed.DRAIN:
            pool.drain(worker, 10.0 if step.gently else 0.0)
        elif step.deed is Deed.UNDRAIN:
            pool.undrain(worker)
        else:
            pool.remove(worker)
    return [f"{step.deed.value} {step.listed.url.removeprefix('http://').removesuffix(':1')}" for step in steps]


class Clock:
    now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def pool_of(clock: Clock | None = None) -> WorkerPool:
    return WorkerPool(clock=clock or Clock())


def names(pool: WorkerPool) -> list[str]:
    return [worker.name for worker in pool]


def test_what_is_listed_is_added_and_nothing_more_is_done() -> None:
    roster, pool = Roster(), pool_of()
    roster.say(Source.SETTINGS, [A, B])
    assert apply(roster, pool) == ["add a", "add b"]
    assert apply(roster, pool) == []
    assert roster.sources(A.url) == (Source.SETTINGS,)


def test_who_vanishes_from_the_file_drains_first_and_leaves_when_nothing_runs_there() -> None:
    clock = Clock()
    roster, pool = Roster(), pool_of(clock)
    roster.say(Source.FILE, [A, B])
    apply(roster, pool)
    worker = pool.at(B.url)
    booking = pool.booked(worker).__enter__()
    roster.say(Source.FILE, [A])
    assert apply(roster, pool) == ["drain b"]
    assert worker.state is State.DRAINING and roster.sources(B.url) == () and roster.leaving(B.url)
    clock.now_s += 10.0
    assert apply(roster, pool) == [], "something runs there"
    booking.__exit__(None, None, None)
    assert apply(roster, pool) == ["remove b"]
    assert names(pool) == ["a:1"]


def test_an_address_that_vanishes_from_dns_is_not_given_time() -> None:
    """Its pod ends within seconds; sessions that stayed would fail."""
    roster, pool = Roster(), pool_of()
    roster.say(Source.DNS, [A, B])
    apply(roster, pool)
    roster.say(Source.DNS, [A])
    assert [step.gently for step in roster.steps(pool)] == [False]
    roster, pool = Roster(), pool_of()
    roster.say(Source.FILE, [A, B])
    apply(roster, pool)
    roster.say(Source.FILE, [A])
    assert [step.gently for step in roster.steps(pool)] == [True]


@pytest.mark.parametrize("given_by", [Source.SETTINGS, Source.ADMIN])
@pytest.mark.parametrize("source", [Source.FILE, Source.DNS])
def test_dns_and_file_never_take_away_what_an_operator_gave(given_by: Source, source: Source) -> None:
    roster, pool = Roster(), pool_of()
    roster.say(given_by, [A])
    roster.say(source, [A, B])
    apply(roster, pool)
    roster.say(source, [B])
    assert apply(roster, pool) == []
    assert roster.sources(A.url) == (given_by,)


def test_who_comes_back_while_it_drains_stays() -> None:
    roster, pool = Roster(), pool_of()
    roster.say(Source.FILE, [A, B])
    apply(roster, pool)
    pool.booked(pool.at(B.url)).__enter__()
    roster.say(Source.FILE, [A])
    apply(roster, pool)
    roster.say(Source.FILE, [A, B])
    assert apply(roster, pool) == ["undrain b"]
    assert pool.at(B.url).state is State.UNKNOWN
    assert apply(roster, pool) == []


def test_what_an_operator_drained_no_list_undrains() -> None:
    roster, pool = Roster(), pool_of()
    roster.say(Source.FILE, [A, B])
    apply(roster, pool)
    pool.drain(pool.at(B.url))
    roster.hold(B.url)
    roster.say(Source.FILE, [B, A])
    assert apply(roster, pool) == []
    assert pool.at(B.url).state is State.DRAINING


def test_what_an_operator_removed_comes_back_only_after_its_list_forgot_it() -> None:
    roster, pool = Roster(), pool_of()
    roster.say(Source.FILE, [A, B])
    apply(roster, pool)
    roster.dismiss(B.url)
    pool.remove(pool.at(B.url))
    roster.say(Source.FILE, [A, B])
    assert apply(roster, pool) == []
    roster.say(Source.FILE, [A])
    roster.say(Source.FILE, [A, B])
    assert apply(roster, pool) == ["add b"]


def test_what_an_operator_removed_he_may_add_again() -> None:
    roster, pool = Roster(), pool_of()
    roster.say(Source.SETTINGS, [A, B])
    apply(roster, pool)
    roster.dismiss(B.url)
    pool.remove(pool.at(B.url))
    roster.add(B)
    assert apply(roster, pool) == ["add b"]


def test_a_name_that_moves_to_another_address_is_not_two_workers() -> None:
    roster, pool = Roster(), pool_of()
    roster.say(Source.FILE, [Listed(A.url, "left")])
    apply(roster, pool)
    pool.booked(pool.at(A.url)).__enter__()
    roster.say(Source.FILE, [Listed(B.url, "left")])
    assert apply(roster, pool) == ["remove a", "add b"]
    assert [(worker.name, worker.url) for worker in pool] == [("left", B.url)]


def test_a_name_that_is_given_later_is_taken_and_one_that_is_taken_back_is_gone() -> None:
    roster, pool = Roster(), pool_of()
    roster.say(Source.FILE, [A, B])
    apply(roster, pool)
    worker, seed = pool.at(A.url), pool.at(A.url).seed
    roster.say(Source.FILE, [Listed(A.url, "left"), B])
    assert apply(roster, pool) == ["rename a"] and names(pool) == ["left", "b:1"]
    assert worker.seed == Worker("http://elsewhere:1", "left").seed and pool.find("left") is worker
    roster.say(Source.FILE, [A, B])
    assert apply(roster, pool) == ["rename a"] and names(pool) == ["a:1", "b:1"] and worker.seed == seed
    assert apply(roster, pool) == []


def test_two_workers_swap_their_names() -> None:
    roster, pool = Roster(), pool_of()
    roster.say(Source.FILE, [Listed(A.url, "left"), Listed(B.url, "right")])
    apply(roster, pool)
    roster.say(Source.FILE, [Listed(A.url, "right"), Listed(B.url, "left")])
    assert apply(roster, pool) == ["rename a", "rename b"] and names(pool) == ["right", "left"]


def test_a_name_that_passes_to_a_worker_that_is_here_or_comes_is_given_up_first() -> None:
    roster, pool = Roster(), pool_of()
    roster.say(Source.FILE, [Listed(A.url, "left"), B])
    apply(roster, pool)
    roster.say(Source.FILE, [A, B, Listed(C.url, "left")])
    assert apply(roster, pool) == ["rename a", "add c"] and names(pool) == ["a:1", "b:1", "left"]
    roster.say(Source.FILE, [A, Listed(B.url, "left")])
    assert apply(roster, pool) == ["remove c", "rename b"] and names(pool) == ["a:1", "left"]


def test_workers_that_nobody_here_named_are_left_alone() -> None:
    roster, pool = Roster(), pool_of()
    pool.add("http://by-hand:1")
    roster.say(Source.FILE, [A])
    assert apply(roster, pool) == ["add a"]


def test_joiners_come_before_leavers() -> None:
    roster, pool = Roster(), pool_of()
    roster.say(Source.FILE, [A])
    apply(roster, pool)
    roster.say(Source.FILE, [B])
    assert apply(roster, pool) == ["add b", "drain a"]


def test_two_workers_of_one_name_are_refused_and_the_list_before_stands() -> None:
    roster = Roster()
    roster.say(Source.FILE, [A])
    with pytest.raises(ValueError, match="two workers with the name"):
        roster.say(Source.FILE, [Listed(B.url, "x"), Listed(C.url, "x")])
    assert roster.sources(A.url) == (Source.FILE,)


LISTS = st.lists(
    st.sampled_from([A, B, C, Listed(A.url, "x"), Listed(B.url, "y")]), max_size=3, unique_by=lambda each: each.url
)


@given(st.lists(st.tuples(st.sampled_from([Source.FILE, Source.DNS, Source.SETTINGS]), LISTS), max_size=12))
def test_in_the_end_those_are_there_whom_somebody_names(said: list[tuple[Source, list[Listed]]]) -> None:
    clock = Clock()
    roster, pool = Roster(), pool_of(clock)
    last: dict[Source, list[Listed]] = {}
    for source, lists in said:
        roster.say(source, lists)
        last[source] = lists
        apply(roster, pool)
        clock.now_s += 3.0
    for _ in range(3):
        clock.now_s += 10.0
        apply(roster, pool)
    assert {worker.url for worker in pool} == {each.url for lists in last.values() for each in lists}
    assert not any(worker.state is State.DRAINING for worker in pool)
    assert apply(roster, pool) == []


# -- the last one ------------------------------------------------------------------------------------------------------


def test_the_models_that_would_be_lost_with_a_worker_are_named() -> None:
    pool = WorkerPool(["http://a:1", "http://b:1"])
    one, two = pool
    pool.answered(one, {"base": {"id": "base"}, "french": {"id": "french", "parent": "base"}})
    pool.answered(two, {"base": {"id": "base"}})
    assert orphaned(pool, one) == ("french",)
    assert orphaned(pool, two) == ()
    pool.drain(one)
    assert orphaned(pool, two) == ("base",), "one that drains does not count"


def test_the_very_last_worker_is_one_whatever_it_serves() -> None:
    pool = WorkerPool(["http://a:1"])
    assert orphaned(pool, next(iter(pool))) == ("",)


# -- lists -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("w.json", '["http://a:1", {"url": "HTTP://B:1/v1", "name": "b"}]'),
        ("w.json", '{"workers": [{"url": "http://a:1"}, {"url": "http://b:1", "name": "b"}]}'),
        ("w.toml", 'workers = ["http://a:1", {url = "http://b:1", name = "b"}]'),
        ("w.toml", '[[workers]]\nurl = "http://a:1"\n[[workers]]\nurl = "http://b:1"\nname = "b"\n'),
        ("workers", "# ours\nhttp://a:1/   # left\n\n  http://b:1 b\n"),
        ("workers", '["http://a:1", {"url": "http://b:1", "name": "b"}]'),
        ("w.txt", "a:1\nb:1 b"),
    ],
)
def test_a_list_may_be_json_toml_or_lines(file: str, text: str) -> None:
    assert listed_in(text, file) == (A, Listed(B.url, "b"))


@pytest.mark.parametrize(
    ("file", "text", "why"),
    [
        ("w", "", "names no worker"),
        ("w", "# nobody\n", "names no worker"),
        ("w.json", "[]", "names no worker"),
        ("w.json", '{"workers": {}}', "no list of workers"),
        ("w.json", '["http://a', "EOF|unexpected|JSON"),
        ("w.toml", "workers = [", "Invalid value"),
        ("w.toml", 'servers = ["http://a:1"]', "no list of workers"),
        ("w", "http://a:1 b c\n", "a line is a URL"),
        ("w", "ftp://a:1\n", "scheme"),
        ("w.json", "[7]", "a worker is a URL"),
        ("w.json", '[{"url": "http://a:1", "weight": 2}]', "not weight"),
        ("w.json", '[{"url": "http://a:1", "name": "a b"}]', "the name 'a b'"),
        ("w", "http://a:1\n" * (MOST_WORKERS + 1), "more than"),
    ],
)
def test_a_list_that_is_none_is_refused_in_words(file: str, text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        listed_in(text, file)


def test_a_dns_name_is_every_address_behind_it() -> None:
    plain, dns = split_dns(["http://a:1", "dns://VLLM.default.svc:8000"])
    assert (plain, dns) == (("http://a:1",), (("vllm.default.svc", 8000),))
    found = resolved([(4, "10.0.0.2"), (4, "10.0.0.1"), (4, "10.0.0.1")], 8000)
    assert found == (Listed("http://10.0.0.1:8000"), Listed("http://10.0.0.2:8000"))


def test_a_machine_with_both_kinds_of_address_is_one_worker() -> None:
    assert resolved([(6, "fd00::1"), (4, "10.0.0.1")], 80) == (Listed("http://10.0.0.1:80"),)
    assert resolved([(6, "fd00::1")], 80) == (Listed("http://[fd00::1]:80"),)
    assert resolved([], 80) == ()


DNS = [Listed(f"http://10.0.0.{n}:80") for n in range(4)]


def test_who_is_missing_from_one_answer_stays_and_from_two_goes() -> None:
    name = Addresses()
    name.answered(DNS[:3])
    name.answered(DNS[:2])
    assert set(name.known) == set(DNS[:3]), "a server that gave a part of a long list"
    name.answered(DNS[1:4])
    assert set(name.known) == set(DNS), "0 is missing for the first time, 2 was missing and is back, 3 comes at once"
    name.answered(DNS[1:4])
    assert set(name.known) == set(DNS[1:4])


@given(st.lists(st.sets(st.sampled_from(DNS), min_size=1), min_size=1))
def test_a_worker_is_known_exactly_if_one_of_the_last_two_answers_has_it(answers: list[set[Listed]]) -> None:
    name = Addresses()
    for answer in answers:
        name.answered(tuple(answer))
    assert set(name.known) == set[Listed]().union(*answers[-2:])
    assert len(name.known) == len(set(name.known))


@pytest.mark.parametrize("url", ["dns://a", "dns://a:0", "dns://a:99999", "dns://:80", "dns://a:80/x", "dns+srv://a"])
def test_a_dns_name_without_a_port_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="dns://HOST:PORT"):
        dns_name(url)


@pytest.mark.parametrize("name", ["", "a/b", "ä", "x" * 65, " a", 5])
def test_a_name_is_short_and_plain(name: object) -> None:
    with pytest.raises(ValueError, match="the name"):
        listed("http://a:1", name)
