"""How long an answer lives, and how it goes. CASES.md, group G, seen from outside; the clock is the test's own."""

import pytest
from embedders import alike
from house import Clock, OpenHouse


@pytest.mark.parametrize(
    ("question", "session"),
    [("Why is the sky blue?", "same"), ("Why is the sky blue?", "other"), ("Please, why is the sky blue?", "other"),
     ("Why is the sky so blue?", "other")],
    ids=["session", "recent, same bytes", "recent, same words", "similar"],
)  # fmt: skip
async def test_an_entry_past_its_life_is_served_by_no_tier(house: OpenHouse, question: str, session: str) -> None:
    """G1 (semantic-router#404): expired entries were served until something purged them. Nothing purges here."""
    clock = Clock()
    async with house(embedder=alike(), clock=clock, ttl_s=10, sweep_s=3600) as h:
        await h.ask("Why is the sky blue?", session="same")
        clock.pass_by(9.9)
        assert (await h.explain(question, session=session))["lookup"]["hit"]
        clock.pass_by(0.2)
        assert not (await h.ask(question, session=session)).hit
        assert h.calls == 2


async def test_the_survivors_of_an_eviction_are_found_and_only_they(house: OpenHouse) -> None:
    """G2 (semantic-router#702, #2313): after the first eviction nothing was found any more."""
    clock = Clock()
    async with house(clock=clock, capacity=5) as h:
        questions = [f"What does error code E{1000 + n} mean?" for n in range(20)]
        for question in questions:
            clock.pass_by(1)
            await h.ask(question)
        assert await h.stored() == 5
        assert [(await h.explain(question))["lookup"]["hit"] for question in questions] == [False] * 15 + [True] * 5
        for question in questions[-5:]:
            assert (await h.ask(question, session="another")).hit
            candidates = (await h.explain(question.replace("What does", "So what does")))["candidates"]
            assert candidates, "found by its vector, too"
            assert all(candidate["text"] in questions[-5:] for candidate in candidates)
        assert h.calls == 20


async def test_one_sweep_frees_what_has_expired(house: OpenHouse) -> None:
    """G3 (semantic-router#2288): expired vectors stayed until the capacity was reached."""
    clock = Clock()
    async with house(embedder=alike(), clock=clock, ttl_s=5) as h:
        for n in range(30):
            await h.ask(f"What does error code E{n} mean?", session="s")
        assert await h.stored() == 30
        clock.pass_by(6)
        await h.proxy.cache.sweep()
        assert await h.stored() == 0
        assert (await h.explain("What does error code E1 mean?"))["candidates"] == []


async def test_after_a_flush_nothing_is_left_in_any_tier(house: OpenHouse) -> None:
    """G6 (ModelCache#35)."""
    async with house(embedder=alike()) as h:
        await h.ask("Why is the sky blue?", session="s")
        await h.ask("What is my account balance?", session="s")
        assert await h.forget_all() == 2
        assert await h.stored() == 0
        for question in ("Why is the sky blue?", "Please, why is the sky blue?", "What is my account balance?"):
            told = await h.explain(question, session="s")
            assert not told["lookup"]["hit"] and told["candidates"] == []
        assert await h.forget_all() == 0


@pytest.mark.parametrize("session", ["s", None])
async def test_hits_do_not_keep_an_entry_young(house: OpenHouse, session: str | None) -> None:
    """G8 (redisvl#603): the hottest answer never aged out."""
    clock = Clock()
    async with house(clock=clock, ttl_s=10) as h:
        await h.ask(session=session)
        ages = []
        for _ in range(9):
            clock.pass_by(1)
            told = await h.ask(session=session)
            assert told.hit
            ages.append((told.headers["Age"], told.cache_status.split("ttl=")[1].split(";")[0]))
        assert ages == [(str(age), str(10 - age)) for age in range(1, 10)]
        clock.pass_by(1)
        assert not (await h.ask(session=session)).hit
        assert h.calls == 2


async def test_an_answer_about_this_moment_lives_for_a_moment_and_in_the_same_words_only(house: OpenHouse) -> None:
    """G1, policy: "now" of yesterday is no answer today."""
    clock = Clock()
    async with house(embedder=alike(), clock=clock, time_bound_ttl_s=60) as h:
        question = "What is the weather in Oslo right now?"
        await h.ask(question)
        assert (await h.ask(question)).hit
        assert not (await h.ask("How is the weather in Oslo right now?")).hit
        clock.pass_by(61)
        assert not (await h.ask(question)).hit


async def test_a_request_may_ask_for_a_shorter_life_never_for_a_longer_one(house: OpenHouse) -> None:
    """Controls: `cache: {"ttl": …}`."""
    clock = Clock()
    async with house(clock=clock, ttl_s=100) as h:
        await h.ask("Why is the sky blue?", cache={"ttl": 5})
        await h.ask("Why is the sea salty?", cache={"ttl": 100_000})
        clock.pass_by(6)
        assert not (await h.explain("Why is the sky blue?"))["lookup"]["hit"]
        assert (await h.explain("Why is the sea salty?"))["lookup"]["hit"]
        clock.pass_by(95)
        assert not (await h.explain("Why is the sea salty?"))["lookup"]["hit"]
        await h.ask("How far is the moon?", cache={"ttl": 0})
        assert not (await h.ask("How far is the moon?")).hit


async def test_what_was_stored_is_there_after_a_restart_and_what_is_personal_for_its_session_only(
    house: OpenHouse,
) -> None:
    """G, durability: the doors close only when what was answered is stored. A session outlives the process."""
    balance = "What is my account balance?"
    for restarted in (False, True):
        async with house() as h:
            for question in ("Why is the sky blue?", "Why is the sky so blue?"):
                assert (await h.explain(question))["lookup"]["hit"] is restarted
            assert (await h.explain(balance, session="s"))["lookup"]["hit"] is restarted
            for other in ("t", None):
                assert not (await h.explain(balance, session=other))["lookup"]["hit"]
            await h.ask("Why is the sky blue?")
            told = await h.ask(balance, session="s")
            assert told.hit is restarted and h.calls == (0 if restarted else 2)
            assert not restarted or 'detail="session exact"' in told.cache_status


async def test_what_a_session_was_told_is_gone_after_a_restart_when_it_was_idle_for_too_long(house: OpenHouse) -> None:
    """Retention: the copy on disk lives no longer than the session would have."""
    clock = Clock()
    async with house(clock=clock, session_idle_s=60) as h:
        await h.ask("What is my account balance?", session="s")
    clock.pass_by(61)
    async with house(clock=clock, session_idle_s=60) as h:
        assert not (await h.ask("What is my account balance?", session="s")).hit


async def test_a_personal_answer_that_is_forgotten_is_forgotten_on_disk_too(house: OpenHouse) -> None:
    """G6, for sessions: a purge before a restart holds after it."""
    async with house() as h:
        await h.ask("What is my account balance?", session="s")
        assert await h.stored() == 1
        assert await h.forget_all() == 1
    async with house() as h:
        assert await h.stored() == 0
        assert not (await h.ask("What is my account balance?", session="s")).hit


async def test_asked_again_at_once_a_session_gets_a_new_answer_where_that_is_wanted(house: OpenHouse) -> None:
    """C, regenerate: chat front ends send identical bytes, and users saw the same answer come back for ever."""
    clock = Clock()
    async with house(clock=clock, regenerate="window") as h:
        first = await h.ask(session="s")
        assert (await h.ask(session="t")).hit and h.calls == 1  # another session has not been told before
        again = await h.ask(session="s")
        assert not again.hit and h.calls == 2 and "fwd=request" in again.cache_status
        clock.pass_by(61)
        later = await h.ask(session="s")
        assert later.hit and later.headers["X-Rejoinder-Entry"] != ""
        assert int(later.headers["Age"]) == 61, "the new answer took the old one's place"
        assert (await h.ask(session=None)).hit and (await h.ask(session=None)).hit
        assert first.text == again.text


@pytest.mark.parametrize("said", [{"cache_control": "no-cache"}, {"cache": {"no_cache": True}}])
async def test_with_no_cache_a_session_gets_a_new_answer_which_replaces_the_old(house: OpenHouse, said: dict) -> None:  # type: ignore[type-arg]
    """C, regenerate, by default: what the caller says, at any time."""
    clock = Clock()
    async with house(clock=clock) as h:
        for question in ("Why is the sky blue?", "What is my account balance?"):
            await h.ask(question, session="s")
            clock.pass_by(10)
            assert (await h.ask(question, session="s")).hit
            assert not (await h.ask(question, session="s", **said)).hit
            told = await h.ask(question, session="s")
            assert told.hit and told.headers["Age"] == "0"
        assert h.calls == 4


async def test_a_higher_temperature_gives_a_new_answer(house: OpenHouse) -> None:
    """C, regenerate: what was sampled otherwise is another question."""
    async with house() as h:
        await h.ask(session="s", temperature=0.2)
        assert not (await h.ask(session="s", temperature=0.9)).hit
        assert (await h.ask(session="s", temperature=0.9)).hit


async def test_a_session_that_says_nothing_for_long_is_forgotten(house: OpenHouse) -> None:
    """Session tier: idle time, whatever the entry's own life."""
    clock = Clock()
    async with house(clock=clock, session_idle_s=60) as h:
        await h.ask("What is my account balance?", session="s")
        clock.pass_by(50)
        assert (await h.ask("What is my account balance?", session="s")).hit
        clock.pass_by(61)
        assert not (await h.ask("What is my account balance?", session="s")).hit
