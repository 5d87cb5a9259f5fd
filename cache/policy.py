"""How far may a question and its answer travel? Pure: facts in, a verdict with its reason out.

Three decisions stand here: `judge` (before the lookup), `unacceptable` (may this stored entry serve this request?) and
`inadmissible` (may this fresh answer be stored?). Unsure means no: a refused hit is only a slow answer.
"""

import re
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Literal

from cache.entry import Answer, Entry
from cache.question import Question, Reach, Trait
from cache.tags import names_of
from cache.templates import Pattern, Split


@dataclass(frozen=True, slots=True)
class Controls:
    """What the caller asked of the cache: RFC 9111 section 5.2.1 request directives, and our few extensions.

    max_age_s, min_fresh_s: seconds.  ttl_s: life of what is stored, at most the configured one.
    threshold: cosine in [0, 1], higher is stricter; it can tighten the embedder's own, never loosen it.
    namespace: a partition inside the tenant.  question: which part of the last message is the question, the rest
    joins the scope.  sources: (document id, version) pairs that the answer stands on; they join the scope.
    tags: words of the caller's by which what is stored can be forgotten; they decide nothing else."""

    no_cache: bool = False
    no_store: bool = False
    only_if_cached: bool = False
    max_age_s: float | None = None
    min_fresh_s: float | None = None
    ttl_s: float | None = None
    threshold: float | None = None
    namespace: str | None = None
    question: str | None = None
    sources: tuple[tuple[str, str], ...] = ()
    tags: tuple[str, ...] = ()


_CLOCKS_APART_S = 120.0  # how far the clocks of two replicas may differ


class Why(StrEnum):
    """Why a question is not looked up, in the words of RFC 9211's `fwd` parameter."""

    NOTHING = "miss"
    BYPASS = "bypass"  # the cache was not asked, by its own rules
    REQUEST = "request"  # the caller's Cache-Control forbade it


@dataclass(frozen=True, slots=True)
class Rules:
    """The operator's part of the judgement. All times in seconds.

    account_questions: "shared" where the assistant knows nothing of its users' accounts, so that "Where is my order?"
    has one answer for everybody. Who tells data of his own is kept to his session in any case.
    lineage: whether turns answered from one entry count as the same turn.  lineage_reset_on_standalone: whether what
    was said before the last turn that surely stands alone is left out.  standalone_across_history: whether a question
    that surely stands alone is looked up as in a new conversation.
    ignore: what of the system prompt is left out of the key (`cache.leeway`).  splits: by tenant (`*` =
    every other), where the question stands in a message that holds more."""

    ttl_s: float = 24 * 3600.0
    time_bound_ttl_s: float = 60.0
    recent_window_s: float = 24 * 3600.0
    reach: Reach = Reach.SIMILAR
    account_questions: Literal["session", "shared"] = "session"
    lineage: bool = True
    lineage_reset_on_standalone: bool = True
    standalone_across_history: bool = True
    ignore: tuple[Pattern, ...] = ()
    splits: tuple[tuple[str, Split], ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """How far to look, how far the answer may travel, how long it lives, and why.

    hidden: ids of entries that the asking session called wrong."""

    read: Reach
    write: Reach
    ttl_s: float
    reason: str
    why: Why = Why.NOTHING
    controls: Controls = field(default_factory=Controls)
    hidden: frozenset[int] = frozenset()

    @property
    def shareable(self) -> bool:
        """Whether an equal question in the air may share this generation: never for no-cache or no-store."""
        return self.why is not Why.REQUEST and self.write > Reach.NOWHERE


_EXACT_ONLY = {
    Trait.NOT_TEXT: "images, audio or files are compared byte for byte only",
    Trait.LOGPROBS: "logprobs are compared byte for byte only",
    Trait.SEVERAL_CHOICES: "several choices are compared byte for byte only",
    Trait.TOOLS: "a request with tools is compared byte for byte only",
    Trait.TOOL_RESULTS: "a tool's result in the conversation is compared byte for byte only",
    Trait.STRUCTURED: "structured output is compared byte for byte only",
    Trait.LONG_TEXT: "a text of this length is compared byte for byte only",
    Trait.NO_TEXT: "there is no question text to compare, only bytes",
}
EXACT_ONLY = frozenset(_EXACT_ONLY)


def judge(question: Question, controls: Controls, rules: Rules) -> Verdict:
    """How far this question may be looked up and its answer stored."""
    ttl_s = rules.ttl_s if controls.ttl_s is None else min(controls.ttl_s, rules.ttl_s)
    write, reason = rules.reach, "shared inside its scope"
    traits = question.traits
    kept = kept_to_its_session(traits, rules)
    if Trait.TIME_BOUND in traits:  # whatever else it is, its moment passes
        ttl_s = min(ttl_s, rules.time_bound_ttl_s)
    if Trait.CREATIVE in traits:
        write, reason = Reach.NOWHERE, "asks for something new each time"
    elif kept is not None:
        write, reason = Reach.SESSION, f"{kept}: never leaves its session"
    elif Trait.TIME_BOUND in traits:
        write = min(write, Reach.RECENT)
        reason = f"bound to a moment: kept {ttl_s:g} s, same words only"
    elif question.text is None:
        write = min(write, Reach.RECENT)
        reason = next((_EXACT_ONLY[trait] for trait in _EXACT_ONLY if trait in traits), _EXACT_ONLY[Trait.NO_TEXT])
    if write is Reach.SESSION and question.session is None:
        write = Reach.NOWHERE
        reason = f"{kept or 'kept to its session'}, and no session id to keep it in"
    if ttl_s <= 0:
        write, reason = Reach.NOWHERE, "its time to live is 0"
    if controls.no_store:
        return Verdict(Reach.NOWHERE, Reach.NOWHERE, 0.0, "the caller said no-store", Why.REQUEST, controls)
    if controls.no_cache:
        return Verdict(Reach.NOWHERE, write, ttl_s, "the caller said no-cache", Why.REQUEST, controls)
    why = Why.BYPASS if write is Reach.NOWHERE else Why.NOTHING
    return Verdict(write, write, ttl_s, reason, why, controls)


def held_back(question: Question, verdict: Verdict, asked: int, askers: int) -> Verdict:
    """The verdict on an answer for which `asked` distinct principals asked so far, where only `askers` of them together
    make it everybody's: until then it stays in the session that caused it. So nobody can plant an answer alone."""
    if asked >= askers or verdict.write <= Reach.SESSION:
        return verdict
    write = Reach.NOWHERE if question.session is None else Reach.SESSION
    return replace(verdict, write=write, reason=f"asked by {asked} of the {askers} callers after whom it is shared")


def kept_to_its_session(traits: frozenset[Trait], rules: Rules) -> str | None:
    """Why, if so. An account question is shared only where its words are all there is: a tool may look into accounts,
    a picture or an unread part may show whose affair it is."""
    if Trait.PERSONAL in traits:
        return "personal"
    if Trait.ACCOUNT in traits and (rules.account_questions == "session" or traits & EXACT_ONLY):
        return "about the asker's own account"
    return None


def unacceptable(entry: Entry, question: Question, verdict: Verdict, now_s: float) -> str | None:
    """Why this stored entry must not answer this question, whatever found it; None when it may.

    The scope is checked again here, on the stored entry, so that no index can carry an answer across."""
    controls, mine, asked = verdict.controls, entry.scope, question.scope
    if mine.key != asked.key or mine.tenant != asked.tenant or mine.model != asked.model:
        return "another scope"
    if entry.kind is not question.kind:
        return "another scope"
    if entry.id in verdict.hidden:
        return "this session called it wrong"
    if now_s >= entry.expires_s:
        return "expired"
    if entry.created_s > now_s + _CLOCKS_APART_S:
        return "made in the future: a clock was set back, so its age is unknown"
    if controls.max_age_s is not None and now_s - entry.created_s > controls.max_age_s:
        return f"older than max-age={controls.max_age_s:g}"
    if controls.min_fresh_s is not None and entry.expires_s - now_s < controls.min_fresh_s:
        return f"not fresh for another {controls.min_fresh_s:g} s"
    if question.limit is not None:
        if entry.answer.tokens is None:
            return "its length in tokens is unknown and the caller set a limit"
        if entry.answer.tokens > question.limit:
            return f"{entry.answer.tokens} tokens, the caller accepts {question.limit}"
    return None


def entry_of(
    question: Question, verdict: Verdict, answer: Answer, entry_id: int, now_s: float, asker: str = ""
) -> Entry:
    """What is kept of an answered question. asker: the principal who caused it."""
    return Entry(
        id=entry_id, kind=question.kind, scope=question.scope, text=question.text, key=question.key,
        proof=question.proof, wording=question.wording, reach=verdict.write, answer=answer, created_s=now_s,
        expires_s=now_s + verdict.ttl_s,
        tags=names_of(verdict.controls.tags, verdict.controls.sources, question.session, asker),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a worker answered, as far as admission cares. texts: one per choice. tool_calls: any choice calls a tool."""

    status: int
    finish_reasons: tuple[str | None, ...]
    texts: tuple[str, ...]
    tool_calls: bool = False
    refusal: bool = False
    complete: bool = True


_APOLOGY = re.compile(
    r"""^\W*(?:unfortunately,?\ |i['’]?m\ afraid\ (?:that\ )?)?(?:
      (?:i['’]?m|i\ am|we['’]?re|we\ are)\ (?:very\ |so\ |really\ |terribly\ )?sorry\b
    | sorry,?\ (?:but\ )?(?:i|we|there|something|an)\b
    | (?:i|we)\ (?:deeply\ |sincerely\ )?apologi[sz]e\b | (?:my|our)\ apologies\b | apologies\b
    | (?:i|we)(?:\ (?:can(?:no|['’])?t|could(?:\ not|n['’]t))|(?:\ am|['’]?m|\ are|['’]re)\ (?:not\ able|unable))
      \ (?:to\ )?(?:help|assist|answer|do\ that|provide|process|complete|comply|fulfil|access|respond|find)\b
    | (?:i|we)\ (?:do\ not|don['’]?t)\ have\ (?:access|the\ ability|any\ information|enough\ information)\b
    | as\ an?\ (?:ai|large\ language\ model|language\ model|assistant)\b
    | (?:an?\ )?(?:internal\ |unexpected\ |server\ |unknown\ ){0,3}(?:error|failure)\b.{0,40}\b(?:occurred|happened)\b
    | something\ went\ wrong\b | (?:the\ )?(?:service|system|request)\ (?:is|was|has)\ (?:temporarily\ |currently\ )?
      (?:unavailable|timed\ out|failed)\b | please\ try\ again\ later\b
    | (?:我们?)?(?:感到)?(?:非常|十分|很|真的)?(?:抱歉|对不起|不好意思)
    | 我(?:无法|不能|没法|没有办法)(?:直接|为您|为你)?(?:回答|提供|帮助|协助|处理|完成|满足|访问)
    | (?:作为|身为)(?:一个|一名)?\s*(?:ai|人工智能|语言模型|大语言模型)
    | (?:系统|服务器?|请求|网络)(?:错误|异常|繁忙|超时|失败|暂时不可用)
    | 出(?:错|现错误)了?
    )""",
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)


def sounds_like_an_apology(text: str) -> bool:
    """An answer that opens by apologising, refusing or reporting a failure: right once perhaps, wrong to repeat."""
    return _APOLOGY.match(text.lstrip()[:400]) is not None


def inadmissible(outcome: Outcome) -> str | None:
    """Why this fresh answer must not be stored; None when it may."""
    if not 200 <= outcome.status < 300:
        return f"status {outcome.status}"
    if not outcome.complete:
        return "the stream broke off"
    if outcome.tool_calls:
        return "it calls a tool"
    if not outcome.finish_reasons:
        return "no choice in it"
    for finish in outcome.finish_reasons:
        if finish != "stop":
            return f"finish_reason {finish}"
    if outcome.refusal:
        return "the model refused"
    if not all(text.strip() for text in outcome.texts):
        return "empty"
    if any(sounds_like_an_apology(text) for text in outcome.texts):
        return "it apologises or reports a failure"
    return None


def flight_key(question: Question, verdict: Verdict) -> tuple[str, str, int | None, str]:
    """Equal keys may share one generation. A question kept to its session shares with that session only.
    The proof, not the fast key, tells questions apart; the limit is part of it because it cuts the answer."""
    session = (question.session or "") if verdict.write is Reach.SESSION else ""
    scope_key, proof, past = question.scope.key, question.proof, question.past
    if question.leeway is not None:  # what it is told may yet prove to show what its key left out
        scope_key, _, proof = question.leeway.exact
    elif past is not None and not past.whole:  # or to lean on turns that others have not
        scope_key, _, proof = past.exact
    return scope_key, proof, question.limit, session
