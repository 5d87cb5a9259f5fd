"""Does a system prompt change with every request? Then nothing stored can ever answer its tenant. Pure state, no I/O.

Whoever writes the hour into his system prompt sees a cache that works and never hits. So each tenant's newest prompts
are remembered, and when so many in a row were never seen before and are the last one with something changed in it, it
is said: in the log once, in `Cache-Status` and `explain` to callers who may know, and counted. The log names no words.
"""

import logging
from collections import OrderedDict
from dataclasses import dataclass, field
from hashlib import blake2b

from cache import Changed, alike, changed

log = logging.getLogger(__name__)

IN_A_ROW = 8  # prompts that were never seen before, until it is said
_PLACES = 256  # tenants and models that are watched; the least recently used are left
_FAMILIES = 4  # assistants of one tenant and model that are told apart
_SEEN = 64  # prompts of each that are remembered
_LONGEST = 8_000  # characters


@dataclass(slots=True)
class _Family:
    """Prompts that are one another with something changed."""

    last: str
    seen: OrderedDict[bytes, None] = field(default_factory=OrderedDict)
    unseen: int = 1
    finding: str | None = None


class PromptWatch:
    """Told of each system prompt as it is keyed, says what is wrong with it."""

    def __init__(self) -> None:
        self._places: OrderedDict[tuple[str, str], list[_Family]] = OrderedDict()
        self._told: OrderedDict[tuple[str, str], None] = OrderedDict()

    def seen(self, tenant: str, model: str, prompt: str) -> str | None:
        """prompt: the text of the instructions, without what is left out of the key. Returns a sentence for whoever
        operates it, None where this prompt is one that comes again."""
        if not prompt:
            return None
        place = (tenant, model)
        families = self._places.setdefault(place, [])
        self._places.move_to_end(place)
        while len(self._places) > _PLACES:
            self._places.popitem(last=False)
        prompt = prompt[:_LONGEST]
        name = blake2b(prompt.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        family = next((each for each in families if name in each.seen), None)
        if family is not None:
            family.seen.move_to_end(name)
            family.unseen, family.finding = 0, None
            return None
        family = next((each for each in families if alike(each.last, prompt)), None)
        if family is None:
            family = _Family(prompt)
            family.seen[name] = None
            families.append(family)
            del families[:-_FAMILIES]
            return None
        before, family.last = family.last, prompt
        family.seen[name] = None
        while len(family.seen) > _SEEN:
            family.seen.popitem(last=False)
        family.unseen += 1
        if family.unseen >= IN_A_ROW and family.finding is None:
            family.finding = _sentence(changed(before, prompt))
            self._tell_once(place)
        return family.finding

    def _tell_once(self, place: tuple[str, str]) -> None:
        if place in self._told:
            return
        self._told[place] = None
        while len(self._told) > _PLACES:
            self._told.popitem(last=False)
        log.warning(
            "the system prompt of tenant %s, model %s changed with each of its last %d requests, so nothing stored can "
            "answer them. `rejoinder explain` with such a request names the changing part and a setting against it",
            *place, IN_A_ROW,
        )  # fmt: skip


def _sentence(found: Changed | None) -> str:
    said = "the system prompt changes with every request, so nothing stored can answer it"
    if found is None:
        return said
    said += f": {found.before!r} became {found.after!r}"
    if not found.patterns:
        return f"{said}; move what changes out of it, into the user's message, where it decides no other question"
    return f"{said}; context_ignore = [{', '.join(map(_quoted, found.patterns))}] leaves that out of the key"


def _quoted(text: str) -> str:
    """As TOML and JSON write it."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
