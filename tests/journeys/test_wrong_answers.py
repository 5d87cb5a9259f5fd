"""False hits: what other caches served that was the answer to another question. CASES.md, group A."""

import asyncio
import itertools
import re

import pytest
from aiohttp import web
from embedders import Placed, alike
from house import EMBEDDERS, OpenHouse, request
from scripted import Asked, ScriptedWorker, completion

from proxy.cli import DEMO_QUESTIONS
from proxy.demo import SimulatedWorker
from proxy.settings import SettingsError, load

UNRELATED = ("Hello there, my friend", "What is the sum of seven and twelve?", "Why do leaves turn red in autumn?")

# One answer cannot serve both: opposite, or about another thing. The first is asked and stored, the second must miss.
OPPOSITES = (
    ("How do I turn on dark mode?", "How do I turn off dark mode?"),
    ("How do I enable two-factor authentication?", "How do I disable two-factor authentication?"),
    ("Which ports must be open?", "Which ports must be closed?"),
    ("How do I increase the brightness?", "How do I decrease the brightness?"),
    ("How can I subscribe to the newsletter?", "How can I unsubscribe from the newsletter?"),
    ("Is alcohol allowed on the train?", "Is alcohol not allowed on the train?"),
    ("What should I eat before a run?", "What should I eat after a run?"),
    ("How do I lock the screen?", "How do I unlock the screen?"),
    ("How do I add a user to the group?", "How do I remove a user from the group?"),
    ("How do I start the server?", "How do I stop the server?"),
    ("Can I return a used item?", "Can't I return a used item?"),
    ("What are the advantages of diesel cars?", "What are the disadvantages of diesel cars?"),
    ("How do I export contacts?", "How do I import contacts?"),
    ("How do I upload a file?", "How do I download a file?"),
    ("What is the maximum weight?", "What is the minimum weight?"),
    ("How do I convert miles to kilometres?", "How do I convert kilometres to miles?"),
    ("How long is the flight from Rome to Oslo?", "How long is the flight from Oslo to Rome?"),
    ("Is the museum open on Monday?", "Is the museum open on Sunday?"),
    ("How do I upgrade the plan?", "How do I downgrade the plan?"),
    ("How do I mute a contact?", "How do I unmute a contact?"),
    ("Which foods are safe for dogs?", "Which foods are unsafe for dogs?"),
    ("How do I install the driver?", "How do I uninstall the driver?"),
    ("Do all plans include support?", "Do any plans include support?"),
    ("How do I sort ascending?", "How do I sort descending?"),
    ("How do I merge two branches?", "How do I split two branches?"),
    ("What happens if I pay early?", "What happens if I pay late?"),
    ("How do I show hidden files?", "How do I hide the sidebar?"),
    ("Can I cancel with a fee?", "Can I cancel without a fee?"),
    ("How do I accept an invitation?", "How do I decline an invitation?"),
    ("How do I buy shares?", "How do I sell shares?"),
    ("What is the cheapest plan?", "What is the most expensive plan?"),
    ("How do I borrow a book?", "How do I lend a book?"),
    ("How do I deposit a cheque?", "How do I withdraw a cheque?"),
    ("Is it legal to park here?", "Is it illegal to park here?"),
    ("How do I encrypt a disk?", "How do I decrypt a disk?"),
    ("Who may enter the building?", "Who must not enter the building?"),
    ("How do I connect the headset?", "How do I disconnect the headset?"),
    ("How do I freeze my membership?", "How do I unfreeze my membership?"),
    ("How do I zoom in?", "How do I zoom out?"),
    ("Should I take it with food?", "Should I take it without food?"),
)

NUMBERS = (
    ("Explain error 48213", "Explain error 48231"),
    ("What is 20 % of 340?", "What is 20 % of 350?"),
    ("1+1", "21+1"),
    ("Convert 3.5 miles to kilometres", "Convert 35 miles to kilometres"),
    ("What happened in 1918?", "What happened in 1981?"),
    ("Is -5 degrees too cold for tomatoes?", "Is 5 degrees too cold for tomatoes?"),
    ("Does version 1.2 support dark mode?", "Does version 1.20 support dark mode?"),
    ("What does a $100 plan include?", "What does a €100 plan include?"),
)


@pytest.mark.parametrize("embedder", EMBEDDERS)
async def test_after_a_first_question_different_questions_do_not_all_get_its_answer(
    house: OpenHouse, embedder: str
) -> None:
    """A1 (litellm#12234)."""
    async with house(embedder=embedder) as h:
        told = [await h.ask(question, cache={"threshold": 0.8}) for question in UNRELATED]
        assert h.calls == 3
        assert not any(one.hit for one in told)
        assert all(question in one.text for question, one in zip(UNRELATED, told, strict=True))


@pytest.mark.parametrize(("stored", "asked"), OPPOSITES)
async def test_an_opposite_request_is_never_served_even_when_the_vectors_are_equal(
    house: OpenHouse, stored: str, asked: str
) -> None:
    """A2 (semantic-router#2691, GPTCache#694)."""
    async with house(embedder=alike()) as h:
        await h.ask(stored)
        told = await h.ask(asked)
        assert not told.hit, told.cache_status
        assert asked in told.text
        assert h.calls == 2


@pytest.mark.parametrize(("stored", "asked"), NUMBERS)
async def test_one_other_digit_is_another_question_even_when_the_vectors_are_equal(
    house: OpenHouse, stored: str, asked: str
) -> None:
    """A3 (semantic-router#36, #160), A4 (langchain-redis#22)."""
    async with house(embedder=alike()) as h:
        await h.ask(stored)
        told = await h.ask(asked)
        assert not told.hit, told.cache_status
        assert asked in told.text
        assert h.calls == 2


async def test_a_threshold_that_is_no_cosine_is_refused_at_the_start() -> None:
    """A4 (langchain-redis#22)."""
    for loose in (1.1, -1.0, -0.01):
        with pytest.raises(SettingsError, match="similarity_threshold"):
            load({"similarity_threshold": loose})


@pytest.mark.parametrize("loose", [0.0, 0.1, 0.69])
async def test_a_threshold_that_would_let_everything_through_lets_nothing_through(
    house: OpenHouse, loose: float
) -> None:
    """A4 (langchain-redis#22): it can only ask for more than the embedder's own."""
    questions = ("How do I reset my password?", "Why did the chicken cross the road?", "Where is the nearest shop?")
    async with house(similarity_threshold=loose) as h:
        for question in questions:
            told = await h.ask(question)
            assert not told.hit, told.cache_status
        assert h.calls == len(questions)


async def test_a_request_can_only_tighten_the_threshold(house: OpenHouse) -> None:
    """A4, A7: with `threshold: 0` a joke is still no sum."""
    async with house() as h:
        for question in ("1+1", "Why did the chicken cross the road?", "21+1"):
            assert not (await h.ask(question, cache={"threshold": 0})).hit
        assert h.calls == 3


@pytest.mark.parametrize("stream", [False, True])
async def test_the_strictest_threshold_means_exact_repetitions_only(house: OpenHouse, stream: bool) -> None:
    """A5 (redisvl#649): the extreme value is a value, not "unset"."""
    async with house(embedder=alike()) as h:
        await h.ask("How do I reset the router?")
        strict = {"cache": {"threshold": 1.0}, "stream": stream}
        assert (await h.ask("How do I reset the router?", **strict)).hit
        assert not (await h.ask("Please, how do I reset the router?", **strict)).hit
        assert not (await h.ask("how do i reset the router", **strict)).hit
        assert (await h.ask("How do I reset the router please", stream=stream)).hit


async def test_one_threshold_means_one_thing_on_every_path(house: OpenHouse) -> None:
    """A6 (redisvl#407, #444, langchain-redis#98): the number that is told is the number that is compared."""
    near = "How can I reset the router at home?"
    async with house(embedder=Placed({near: 20.0})) as h:  # cos 20° = 0.9397
        await h.ask("How do I reset the router at home?")
        lookup = (await h.explain(near))["lookup"]
        assert lookup["hit"], lookup
        assert lookup["similarity"] == pytest.approx(0.9397, abs=1e-3)
        for stream in (False, True):
            told = await h.ask(near, stream=stream, cache={"threshold": 0.93})
            assert told.hit
            cosine = re.search(r"similar meaning (\d\.\d+)", told.cache_status)
            assert cosine is not None and 0.93 <= float(cosine[1]) <= 1.0
            assert (await h.explain(near, cache={"threshold": 0.95}))["lookup"]["reason"] == "nothing-near"
        assert not (await h.ask(near, stream=True, cache={"threshold": 0.95})).hit


async def test_a_stricter_threshold_never_adds_a_hit(house: OpenHouse) -> None:
    """A7 (GPTCache#578): the direction, as the settings and the error message state it."""
    asked = {f"How can I reset router number {word}?": 4.0 * place for place, word in enumerate(
        ("alpha", "alpha please", "alpha now then", "alpha today's", "alpha again", "alpha so"))}  # fmt: skip
    async with house(embedder=Placed(asked)) as h:
        await h.ask("How do I reset router number alpha?")
        served: list[set[str]] = []
        for threshold in (0.8, 0.9, 0.95, 0.99, 0.999, 1.0):
            found = [question for question in asked
                     if (await h.explain(question, cache={"threshold": threshold}))["lookup"]["hit"]]  # fmt: skip
            served.append(set(found))
        assert all(stricter <= looser for looser, stricter in itertools.pairwise(served))
        assert served[0] > served[-1], "the test must be able to fail: nothing was ever served"
        refused = await h.ask(cache={"threshold": 1.5})
        assert refused.status == 400
        assert "higher is stricter" in refused.error["message"]


async def test_fifty_repetitions_are_49_hits_and_fifty_questions_none(house: OpenHouse) -> None:
    """A11 (litellm#6954, #31610)."""
    async with house() as h:
        told = [await h.ask("How do I descale the kettle?") for _ in range(50)]
        assert [one.hit for one in told] == [False] + [True] * 49
        assert len({one.text for one in told}) == 1
        assert h.calls == 1
        distinct = await asyncio.gather(*(h.ask(f"What does error code E{1000 + n} mean?") for n in range(50)))
        assert not any(one.hit for one in distinct)
        assert all(f"E{1000 + n}" in one.text for n, one in enumerate(distinct))
        assert h.calls == 51


async def test_the_answer_names_the_model_that_made_it_and_no_other_models_answer_is_served(
    house: OpenHouse,
) -> None:
    """A12 (weave router#789), D6 (litellm#3199)."""
    async with SimulatedWorker(models=("small", "large")) as worker, house([worker], embedder=alike()) as h:
        for model in ("small", "large", "small", "large"):
            told = await h.ask(model=model)
            assert told.json["model"] == model
        assert [body["model"] for body in h.bodies] == ["small", "large"]


async def test_a_name_that_now_means_other_weights_gets_a_new_answer(house: OpenHouse) -> None:
    """A12 (weave router#789): the workers were restarted with the same `--served-model-name` and another model."""

    async def answer(_: web.Request, __: Asked) -> web.StreamResponse:
        return web.json_response(completion({"content": "I am " + roots[-1]}))

    roots: list[str] = []
    for root in ("org/old-7b", "org/new-70b"):
        roots.append(root)
        async with ScriptedWorker(answer, models={"demo": root}) as worker, house([worker]) as h:
            assert (await h.ask()).text == "I am " + root


async def test_the_threshold_is_tested_on_the_candidate_that_is_served_not_on_the_nearest(house: OpenHouse) -> None:
    """A13 (BetterDB `check()`): the nearest passes the threshold and is refused by a guard; the next is too far."""
    asked, nearest, far = "How do I pair 2 headsets?", "How do I pair 3 headsets?", "How do I pair 2 headsets at once?"
    async with house(embedder=Placed({asked: 0.0, nearest: 5.0, far: 60.0})) as h:
        await h.ask(nearest)
        await h.ask(far)
        told = await h.ask(asked)
        assert not told.hit
        assert h.calls == 3


@pytest.mark.parametrize(
    ("stored", "asked"),
    [
        ("What does the password ABC open?", "What does the password abc open?"),
        ("Decode the token aGVsbG8", "Decode the token AGVSBG8"),
        ("Explain the variable maxSize", "Explain the variable MAXSIZE"),
        ("Is AbC123 a valid coupon?", "Is abc123 a valid coupon?"),
        ("What does `ls -R` do?", "What does `ls -r` do?"),
    ],
)
async def test_a_difference_in_case_alone_counts_in_codes(house: OpenHouse, stored: str, asked: str) -> None:
    """A14 (Bifrost): a lower-cased exact hash made "password ABC" and "password abc" one."""
    async with house(embedder="none") as h:
        await h.ask(stored)
        assert not (await h.ask(asked)).hit
        assert [body["messages"] for body in h.bodies] == [request(q)["messages"] for q in (stored, asked)]


async def test_what_the_demo_tells_people_to_type_does_what_it_promises(house: OpenHouse) -> None:
    """Found in review: its own rewording was a miss."""
    async with house(embedder="default", embed_deadline_s=10.0) as h:
        told = []
        for question in DEMO_QUESTIONS:
            told.append((await h.ask(question)).cache_status)
            await h.settled()
        assert "fwd=miss" in told[0]
        assert "recent wording" in told[1]
        assert "similar meaning" in told[2]


async def test_a_wrong_answer_can_be_got_rid_of(house: OpenHouse) -> None:
    """A10 (semantic-router#1581): the reply names its entry; once that is deleted, nobody is told it again."""
    async with house(embedder=alike()) as h:
        await h.ask("How do I descale the kettle?", session="one")
        await h.settled()
        wrong = await h.ask("How can I descale the kettle?", session="two")
        assert wrong.hit
        entry = wrong.headers["X-Rejoinder-Entry"]
        assert (await h.send("DELETE", f"/admin/entries/{entry}")).json == {"deleted": 1}
        for session, question in (("one", "How do I descale the kettle?"), ("two", "How can I descale the kettle?")):
            assert not (await h.ask(question, session=session)).hit
            await h.forget_all()
        assert (await h.send("DELETE", f"/admin/entries/{entry}")).json == {"deleted": 0}
        assert (await h.send("DELETE", "/admin/entries/everything")).status == 400
        assert (
            await h.send("DELETE", f"/admin/entries/{entry}", headers={"Origin": "https://evil.example"})
        ).status == 403
