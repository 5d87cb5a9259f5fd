"""From a request body to a Question: what is asked, inside which scope, under which key.

The table of fields stands here. A field that it does not know is part of the key, so tomorrow's vLLM parameter makes a
miss and never a wrong hit. Pure: the secret and the caller's tenant are arguments.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from cache import fingerprint
from cache.followups import sense
from cache.leeway import counts, loosened, marked
from cache.lineage import past_of, read_chat
from cache.policy import EXACT_ONLY, Controls, Rules, kept_to_its_session
from cache.question import Kind, Leeway, Past, Question, Scope, Trait
from cache.standalone import asks_how, tells_circumstances
from cache.traits import traits_of


class Field(StrEnum):
    """What a request field can do to the answer."""

    ANSWER = "answer"  # changes the words: keyed. Every unknown field is one
    LIMIT = "limit"  # cuts the answer: checked against its length
    TRANSPORT = "transport"  # changes only how the answer travels
    IDENTITY = "identity"  # says who asks


FIELDS: dict[str, Field] = {
    "max_tokens": Field.LIMIT,
    "max_completion_tokens": Field.LIMIT,
    "stream": Field.TRANSPORT,
    "stream_options": Field.TRANSPORT,
    "priority": Field.TRANSPORT,
    "service_tier": Field.TRANSPORT,
    "store": Field.TRANSPORT,
    "request_id": Field.TRANSPORT,
    "user": Field.IDENTITY,
    "safety_identifier": Field.IDENTITY,
    "session_id": Field.IDENTITY,
    "metadata": Field.IDENTITY,
    "prompt_cache_key": Field.IDENTITY,
    "prompt_cache_retention": Field.IDENTITY,
    "conversation": Field.IDENTITY,
    "previous_response_id": Field.IDENTITY,
    "cache": Field.TRANSPORT,  # our own controls, removed before vLLM sees the body
}

_HOLE = ["\x00the question"]  # stands in the scope where the question's text was
_WITH_HOLE = b"?"  # begins such a scope's place, so that nobody who sends the hole itself gets into it
# Characters. No embedder of ours sees more, and reading the words of 8 MB kept the event loop for 8 s (GIE#2928).
_LONGEST_COMPARED = 4_000
_MOST_PIECES = 5_000  # turns, parts and other JSON nodes that are looked into; with more, only bytes are compared
_SILENT = ("system", "developer", "assistant")  # turns that are not the asker's words
# In a turn or a part: what is no text, or none of the asker's.
_NOT_WORDS = frozenset(("role", "type", "id", "tool_call_id", "tool_calls", "function_call", "image_url", "input_image",
                        "input_audio", "audio", "audio_url", "video_url", "image", "video", "file_id", "file_data",
                        "detail", "format", "cache_control"))  # fmt: skip
_STRUCTURE = ("response_format", "structured_outputs", "guided_json", "guided_regex", "guided_choice",
              "guided_grammar", "guided_decoding_backend")  # fmt: skip
_COUNTS = ("n", "best_of")


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks. tenant: the name under which answers are shared.  session: digest of a strong session id, or None."""

    tenant: str
    session: str | None = None


@dataclass(slots=True)
class _Found:
    """The question's text inside a chat, and the conversation with a hole where it was.

    said: what tells the question's traits; the same text, or all the caller's words where no text can be compared.
    earlier: the caller's other words, whatever role or part type they came in, and what tools told about him.
    around: words that may be a document's rather than the caller's: the message around a marked question."""

    text: str | None
    rest: Any
    traits: set[Trait]
    said: str
    earlier: list[str]
    around: list[str]


def ask(
    kind: Kind, body: Mapping[str, Any], caller: Caller, controls: Controls, secret: bytes, revision: str = "",
    rules: Rules | None = None,
) -> Question:  # fmt: skip
    """Read one request body, and leave out of its key what `cache.leeway` lets it. For the arguments see `_read`."""
    if rules is not None and rules.splits:
        controls = marked(body, controls, rules, caller.tenant)
    whole = _read(kind, body, caller, controls, secret, revision, rules)
    loose = loosened(body, controls, rules) if rules is not None and kind is Kind.CHAT else None
    if loose is None:
        return whole
    said = (whole.text or "",) if whole.past is None else whole.past.said
    if (why := counts(whole, loose, said)) is not None:
        return replace(whole, counted=why)
    without = _read(kind, loose.body, caller, controls, secret, revision, rules, ("left out",))
    taken = tuple((each.kind, each.value) for each in loose.taken)
    return replace(without, leeway=Leeway((whole.scope.key, whole.key, whole.proof), taken, loose.reordered))


def _read(
    kind: Kind, body: Mapping[str, Any], caller: Caller, controls: Controls, secret: bytes, revision: str,
    rules: Rules | None, loose: tuple[str, ...] = (),
) -> Question:  # fmt: skip
    """revision: what stands behind the model's name now, such as the path of its weights.
    rules: what they say of lineage; None = a request is known by its exact bytes.  loose: marks a body that lacks
    something.

    A body that this code does not understand (a missing or odd `messages`) still gets an exact key: the worker will
    say what is wrong with it, and errors are never stored."""
    answer_fields = {
        name: value for name, value in body.items()
        if value is not None and FIELDS.get(name, Field.ANSWER) is Field.ANSWER
    }  # fmt: skip
    place = fingerprint.canonical(
        [caller.tenant, kind.value, controls.namespace, sorted(controls.sources), revision, *loose]
    )
    key, proof = fingerprint.exact(place, fingerprint.canonical(answer_fields), secret)
    found = _find(kind, body, controls)
    traits = found.traits | _traits_of_fields(answer_fields)
    said, earlier = found.said, found.earlier
    while earlier and not said.strip():  # a picture alone: what was said before it counts
        said, earlier = earlier[-1], earlier[:-1]
    unread = controls.no_cache and controls.no_store  # nothing is looked up or kept, so nothing has to be understood
    if not unread and (said.strip() or found.around):
        traits |= traits_of(said if said.strip() else "?", earlier, found.around)
    if found.text is None or not found.text.strip():
        traits.add(Trait.NO_TEXT)
    elif len(found.text) > _LONGEST_COMPARED:
        traits.add(Trait.LONG_TEXT)
    if _wants_the_same_every_time(body):
        traits.discard(Trait.CREATIVE)
    comparable = None if unread or traits & EXACT_ONLY else found.text
    name = "messages" if kind is Kind.CHAT else "prompt"
    scope_place = place if found.text is None else _WITH_HOLE + place
    _, scope_key = fingerprint.exact(scope_place, fingerprint.canonical({**answer_fields, name: found.rest}), secret)
    model = body.get("model")
    past = None
    if rules is not None and rules.lineage and comparable is not None:
        past, traits = _past(answer_fields, found, place, (scope_key, key, proof), secret, rules, traits)
    wording = None
    if comparable is not None:
        meaning = sense(comparable) if past is not None and past.turns else None
        wording = fingerprint.meant(meaning) if meaning is not None else fingerprint.wording(comparable)
    return Question(
        kind=kind,
        scope=Scope(caller.tenant, model if isinstance(model, str) else "", scope_key),
        text=comparable,
        key=key,
        proof=proof,
        wording=wording,
        traits=frozenset(traits),
        limit=_limit(body),
        session=caller.session,
        past=past,
    )


def _past(
    fields: Mapping[str, Any], found: _Found, place: bytes, exact: tuple[str, str, str], secret: bytes, rules: Rules,
    traits: set[Trait],
) -> tuple[Past | None, set[Trait]]:  # fmt: skip
    """What was said before (None where the messages are no plain talk), and the traits that are left.

    That an earlier turn asked of the asker's own account does not make a later subject his: where nothing that belongs
    to the question speaks of it, and he told no data of his own at all, the question is anybody's."""
    messages = fields["messages"]
    chat = read_chat(messages)
    if chat is None or found.text is None:
        return None, traits
    fresh = exact
    if chat.turns:
        bare = fingerprint.canonical({**fields, "messages": [*chat.before, messages[-1]]})
        holed = fingerprint.canonical({**fields, "messages": [*chat.before, found.rest[-1]]})
        fresh = (fingerprint.exact(_WITH_HOLE + place, holed, secret)[1], *fingerprint.exact(place, bare, secret))
    kept = kept_to_its_session(frozenset(traits), rules) is not None
    past = past_of(chat, found.text, messages[-1], fresh, exact, rules, kept=kept and Trait.PERSONAL in traits)
    if not kept or Trait.PERSONAL in traits:
        return past, traits
    if not past.whole and not kept_to_its_session(traits_of(found.said, past.said[:-1], found.around), rules):
        return past, traits - {Trait.ACCOUNT}
    if sense(found.text) is not None and not any(_own_affair(turn, rules) for turn in past.said):
        return past, traits - {Trait.ACCOUNT}
    return past_of(chat, found.text, messages[-1], fresh, exact, rules, kept=True), traits


def _own_affair(turn: str, rules: Rules) -> bool:
    """Whether a turn, taken by itself, is one person's affair: "how do I cancel my order?" is everybody's, and so is
    "is it free?" after it; "my parcel is late" is his, and "when will it be done?" then is, too."""
    if tells_circumstances(turn) or kept_to_its_session(traits_of(turn), rules) is not None:
        return True
    return kept_to_its_session(traits_of("?", (turn,)), rules) is not None and not asks_how(turn)


def _find(kind: Kind, body: Mapping[str, Any], controls: Controls) -> _Found:
    """The question's text, and every word that may tell whose affair it is: also those in parts and roles that the
    worker's template may render though this code does not know them. System and developer turns are the operator's.

    A prompt of token ids is kept to its session: nobody can read off it whether it is one person's affair, and the
    same ids come from everybody who asks the same. Where only pictures or sound cannot be read, equal bytes may be
    shared: nobody else has the same photograph by chance."""
    traits: set[Trait] = set()
    around, complete = _strings(body.get("documents"))
    if kind is Kind.COMPLETION:  # a raw prompt is no question: one more space may change how it goes on
        prompt = body.get("prompt")
        read, prompt_complete = _strings(prompt)
        suffix, suffix_complete = _strings(body.get("suffix"))
        if body.get("prompt_embeds") is not None or (
            isinstance(prompt, list) and not all(isinstance(each, str) for each in prompt)
        ):
            traits.add(Trait.PERSONAL)
        if not (complete and prompt_complete and suffix_complete):
            traits.add(Trait.LONG_TEXT)
        return _Found(None, prompt, traits, "\n".join(read), suffix, around)
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages or not all(isinstance(turn, dict) for turn in messages):
        read, complete = _strings(messages)
        return _Found(None, messages, traits if complete else {Trait.LONG_TEXT}, "\n".join(read), [], around)
    latest, earlier, all_read = _words(messages)
    if not (complete and all_read):
        return _Found(None, messages, {Trait.LONG_TEXT}, "\n".join(latest), earlier, around)
    for turn in messages:
        content = turn.get("content")
        if isinstance(content, list) and any(_part_text(part) is None for part in content):
            traits.add(Trait.NOT_TEXT)
        if turn.get("audio") is not None:
            traits.add(Trait.NOT_TEXT)
        if turn.get("role") in ("tool", "function") or turn.get("tool_calls"):
            traits.add(Trait.TOOL_RESULTS)
    last = messages[-1]
    if last.get("role") != "user":
        return _Found(None, messages, traits, "\n".join(latest), earlier, around)
    text, hole = _split(last.get("content"), controls.question)
    rest = [*messages[:-1], {**last, "content": hole}]
    if text is None:
        return _Found(None, rest, traits, "\n".join(latest), earlier, around)
    others, _ = _strings({name: value for name, value in last.items() if name != "content"})
    parts = _texts(last.get("content"))
    if controls.question is not None:
        around = [*around, *parts[-1].split(text, 1)]
    return _Found(text, rest, traits, text, [*earlier, *others, *parts[:-1]], around)


def _words(messages: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[str], bool]:
    """The asker's newest turn, all earlier ones with what tools said, and whether all of it was looked into."""
    latest: list[str] | None = None
    turns: list[list[str]] = []  # newest first
    left = _MOST_PIECES
    complete = True
    for turn in reversed(messages):
        left -= 1
        if left <= 0:
            return latest or [], [text for texts in reversed(turns) for text in texts], False
        role = turn.get("role")
        if role in _SILENT:
            continue
        texts, whole = _strings(turn, left)
        left -= len(texts)
        complete = complete and whole
        if latest is None and role not in ("tool", "function"):
            latest = texts
        else:
            turns.append(texts)
    return latest or [], [text for texts in reversed(turns) for text in texts], complete


def _strings(value: object, most: int = _MOST_PIECES) -> tuple[list[str], bool]:
    """Every string inside a JSON value in its order, but for names of things and data of pictures; whether these are
    all. No recursion: a hostile body may be nested deeply."""
    found: list[str] = []
    stack = [value]
    while stack:
        most -= 1
        if most < 0:
            return found, False
        each = stack.pop()
        if isinstance(each, str):
            if each and not each.startswith("data:"):
                found.append(each)
        elif isinstance(each, Mapping):
            stack.extend([inner for name, inner in each.items() if name not in _NOT_WORDS][::-1])
        elif isinstance(each, list):
            if len(each) > most:
                return [*found, *(inner for inner in each[:most] if isinstance(inner, str))], False
            stack.extend(reversed(each))
    return found, True


def _part_text(part: object) -> str | None:
    if isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str):
        return str(part["text"])
    return None


def _texts(content: object) -> Sequence[str]:
    if isinstance(content, str):
        return [content]
    if isinstance(content, list):
        return [text for part in content if (text := _part_text(part)) is not None]
    return []


def _split(content: object, marked: str | None) -> tuple[str | None, Any]:
    """The question's text, and the content with a hole in its place. With several text parts the last one is the
    question; with a marked question everything around it joins the scope by content."""
    if isinstance(content, str):
        text, rest = _cut(content, marked)
        return text, [*_HOLE, rest] if rest else _HOLE
    texts = _texts(content)
    if not isinstance(content, list) or len(texts) != len(content) or not texts:
        return None, content
    text, rest = _cut(texts[-1], marked)
    return text, [*content[:-1], {**content[-1], "text": [*_HOLE, rest]}]


def _cut(text: str, marked: str | None) -> tuple[str | None, Any]:
    if marked is None:
        return text, None
    if text.count(marked) != 1:  # not there, or ambiguous: nothing is compared but bytes
        return None, text
    before, _, after = text.partition(marked)
    return marked, [before, after]


def _traits_of_fields(fields: Mapping[str, Any]) -> set[Trait]:
    traits: set[Trait] = set()
    if fields.get("tools") or fields.get("functions"):
        traits.add(Trait.TOOLS)
    if fields.get("logprobs") or fields.get("top_logprobs") or fields.get("prompt_logprobs"):
        traits.add(Trait.LOGPROBS)
    if any(fields.get(name, 1) != 1 for name in _COUNTS):
        traits.add(Trait.SEVERAL_CHOICES)
    form = fields.get("response_format")
    plain = form is None or (isinstance(form, dict) and form.get("type") == "text")
    if not plain or any(name in fields for name in _STRUCTURE if name != "response_format"):
        traits.add(Trait.STRUCTURED)
    modalities = fields.get("modalities")
    if fields.get("audio") is not None or (modalities is not None and modalities != ["text"]):
        traits.add(Trait.NOT_TEXT)
    return traits


def _wants_the_same_every_time(body: Mapping[str, Any]) -> bool:
    return body.get("temperature") == 0 or body.get("seed") is not None


def _limit(body: Mapping[str, Any]) -> int | None:
    """The smaller of the two limits. An odd value counts as 0, which no stored answer fits: the worker will object."""
    limits = [body[name] for name in ("max_tokens", "max_completion_tokens") if body.get(name) is not None]
    if not limits:
        return None
    return min(limit if isinstance(limit, int) and not isinstance(limit, bool) else 0 for limit in limits)
