"""The words of a text, in their order: what remains when case, punctuation, inflection and courtesy are taken away.

Two texts with the same words are served from one another *without* any guard, so this must be as safe as byte
equality: when a difference could matter, it stays. What stays: the order; every digit, sign and inner mark (`-5`,
`3.5`, `v1.2`, `C++`, `$5`, `5%`); upper case inside codes, acronyms and quotations; "not" in each of its spellings;
past tenses; code, to the letter. Chinese is compared character by character: while the order is kept, equal
characters and equal segments are the same thing, so a segmenter would cost a second at start and decide nothing.
Theory of operation: fold the characters, leave code alone, take the courtesy off, cut into tokens, make each plain.
"""

import re
import unicodedata

from cache.courtesy import without_courtesy
from cache.inflection import plain
from cache.language import language
from cache.words import listed, words

_HAN = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_TOKEN = re.compile(
    rf"""(?P<code>```.*?(?:```|$)|`[^`\n]+`)
    |(?P<quote>"[^"\n]*"|“[^”\n]*”|「[^」\n]*」|『[^』\n]*』|《[^》\n]*》|(?<!\w)'[^'\n]+'(?!\w))
    |(?P<han>[{_HAN}])
    |(?P<chunk>[^\s{_HAN}“”「」『』《》]+)
    |(?P<line>\n)""",
    re.VERBOSE | re.DOTALL,
)
_CODE = re.compile(
    r"""[;{}][ \t]*$
    |^[ \t]*(?:def|class|import|from|return|public|private|static|void|const|let|var|func|fn|package|use|using)\s+\S+
        .{0,300}[({;:=]
    |^[ \t]*\#(?:include|define|!)
    |\b(?:SELECT|INSERT|UPDATE|DELETE|CREATE|ALTER|DROP)\b.{0,300}\b(?:FROM|INTO|SET|TABLE|INDEX)\b
    |</?\w+[^>\n]{0,200}>|=>|==|!=|&&|\|\||::|\w\(.{0,200}\)[ \t]{0,5}[:;{]|\$\{
    |^[ \t]{2,}\S.*\n[ \t]{4,}\S""",
    re.MULTILINE | re.VERBOSE,
)
_UNSEEN = 3
_WORD = re.compile(r"[^\W\d_]+(?:['-][^\W\d_]+)*\Z")
_MATH = re.compile(r"[=<>+*^√∑∫|]|\d\s*[/(-]\s*[\d(a-z]\b|[/-]\s*\d")
_PROSE_MARKS = ".,;:!?\"'()…。、·¿¡«»—–-~"
_TRAILING = ".,;:?\"')…。、»—–~"
_SIGN_LEADS = re.compile(r"[.!:?-]+(?=\w)|[,~]+(?=\d)")  # ".NET", "!important", ":q", "-5", ",5"
_DASHED_NUMBER = re.compile(r"(?<![A-Za-z\d_)])[–—](?=[.,]?\d)")  # a dash typed for a minus
_MEASURED = re.compile(r"""\d['"]+$""")  # feet and inches
# Words that a pause behind them makes a sentence of their own: "Don't, cancel it".
_DENIALS = words("""
    no not never stop don't doesn't didn't can't cannot won't isn't aren't dont cant wont wouldn't shouldn't
    nope nothing none
    """)
_DENIALS_HAN = listed("不 别 没 莫 勿 不要 没有 不是 不能 不行 不可 不会 不用 不对 不好 禁止 停")
_BEFORE_MARK = words("type write enter press insert the a symbol sign mark character called")
_PAUSES = ",.;:!，。；：！、—–"
# Words for which a capital inside a sentence makes another word.
_TWO_FACED = words("""
        Polish Turkey China May March August Apple Windows Word Excel Access Target Shell Amazon Swift Go Rust Ruby
        Chrome Edge Safari Teams Zoom Slack Square Stripe Orange Mercury Jordan Chad Georgia Nice Reading Bath Cork
        Mobile Bill Mark Will Grace Hope Rose Frank Jack Nick Pat Rich Rob Sue Drew Gene Grant Lance Miles Pierce Chase
        Hunter Carter Christian Job Lent Mass Pole Finn Dane Scotch Swede Cologne Hamburg Java Python Oracle Discord
        Signal Line Meta Visa Discover Express Sky Three Spring Flask Express React Angular Nest Next Go Basic Pascal
        Crystal Dart Julia Scheme Notion Monday Bolt Boots Gap Next Virgin Delta Shell Total Corona Dove Galaxy Note
        Outlook Paint Photos Notes Numbers Pages Keynote Calendar Contacts Messages Music Mail Maps Files Home Health
        Wallet Shortcuts Reminders Clock Weather Books Podcasts Publisher Project Planner Forms Sway Copilot Defender
        Surface Switch Steam Alexa Echo Fire Prime Flash Catholic Mormon Titan Earth Sun Moon Lord God Bible Congress
        House Senate Labour Labor Green Tory Democrat Republican Liberal Conservative
        """)
# In a text all in capitals these may be the acronym or the word.
_SHOUTED_NAMES = words(
    "US IT WHO AIDS ADD PET PETS ISIS PASS CAT CATS ACT SAT ICE FED HIS SHE RAM ROM LAW MAY ARM ARMS"
)
# Capitals that no lower-case word contradicts.
_PLAIN_CAPITALS = words("""
        NOT NEVER NO ONLY ALL ANY EVERY MUST PLEASE WHY HOW WHAT WHEN WHERE WHICH THE MY YOUR AND OR BUT IF CANNOT CAN
        I ATM PDF URL API FAQ SIM VAT USB GPS TV SMS OK ID PC CSV JSON XML HTML CSS SQL USA UK NHS GBP USD EUR GDP CEO
        DVD ASAP FYI COVID HTTP HTTPS SSH VPN PIN
        """)
_BRANDS = words("""
        iphone ipad imac ipod macos ios paypal github gitlab youtube linkedin whatsapp javascript typescript mysql
        postgresql ebay facetime airpods icloud itunes tiktok onedrive dropbox wordpress mastercard airbnb openai
        chatgpt powerpoint hubspot macbook nodejs wifi wi-fi facebook
        """)
# After such a word comes a name whose capitals may matter even if it looks like an ordinary word.
_NAMING = words("""
        password passcode passphrase code id key token pin username login named called variable function method class
        command file folder path branch coupon voucher promo serial sku channel hashtag
        """)
_STATE = words("is are was were be been being am has have had having get gets got getting 'm 're 's 've isn't aren't")
_CONTRACTED = {
    "can't": "can not", "cannot": "can not", "cant": "can not", "won't": "will not", "wont": "will not",
    "shan't": "shall not", "dont": "do not", "doesnt": "does not", "didnt": "did not", "isnt": "is not",
    "wasnt": "was not", "arent": "are not", "couldnt": "could not", "wouldnt": "would not", "shouldnt": "should not",
    "hasnt": "has not", "havent": "have not", "i'm": "i am", "i've": "i have", "i'll": "i will",
}  # fmt: skip
# "What's the fee" is "what is the fee"; "what's changed" may be "what has changed", so it stays.
_SHORT_IS = re.compile(
    r"\b(what|where|who|how|when|that|there)(?:'s|(?<=what)s|(?<=where)s)(?= (?:the|an?|my|your|our|this|that|it)\b)",
    re.IGNORECASE,
)
_SHORT_WORDS = words("""
    a i an am as at be by do go he if in is it me my no of on or so to up us we and any are but can did for get had
    has her him his how let may not now off old one our out own per put say see set she the too try two use was way
    who why yes you your all ask buy day end new pay run
    """)


_OWN_FOLDS = {
    "’": "'", "‘": "'", "ʼ": "'", "−": "-", "„": '"', "‟": '"', "\r": "\n", "\u200b": "", "\ufeff": "", "\xad": "",
}  # fmt: skip


class _Fold(dict[int, str]):
    """NFKC, character by character, except where it would change what is said: x² is not x2, and 3½ is not 31/2."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        kind = unicodedata.decomposition(char).partition(" ")[0]
        folds = kind in ("<wide>", "<narrow>", "<noBreak>", "<compat>") and unicodedata.category(char) != "No"
        self[code] = _OWN_FOLDS.get(char, unicodedata.normalize("NFKC", char) if folds else char)
        return self[code]


_FOLD = _Fold()  # a cache of at most 1.1 million characters; what it holds never depends on what was asked


def folded(text: str) -> str:
    """The text with wide, narrow and compatibility characters made plain, in Unicode's composed form (NFC)."""
    if text.isascii():
        return text
    return _DASHED_NUMBER.sub("-", unicodedata.normalize("NFC", text.translate(_FOLD)))


def hides_a_message(text: str) -> bool:
    """Whether more characters that nobody sees stand in it than an emoji or a paste leaves; they can spell one."""
    return sum(1 for sign in text if unicodedata.category(sign) == "Cf") > _UNSEEN


def looks_like_code(text: str) -> bool:
    """Whether the text, outside of fences, seems to be a program rather than prose."""
    return _CODE.search(text) is not None


def worded(text: str) -> tuple[str, ...]:
    """The tokens of a text; empty when nothing but courtesy or punctuation is there.

    Equal tokens mean "the same question, typed differently"; see the module's docstring for what keeps tokens apart."""
    if not text.isascii() and hides_a_message(text):
        return ("\0verbatim", text)
    text = folded(text).strip()
    if looks_like_code(text):
        return ("\0verbatim", text)
    spoken = language(text)
    text = without_courtesy(text, spoken)
    if spoken == "en":
        text = _SHORT_IS.sub(r"\1 is", text)
    reader = _Reader(text, english=spoken == "en")
    for match in _TOKEN.finditer(text):
        reader.take(match)
    return reader.tokens()


class _Reader:
    """Goes over one text from left to right and remembers what a token's neighbours say about it."""

    def __init__(self, text: str, english: bool) -> None:
        self._english = english
        self._math = _MATH.search(text) is not None
        self._shouted = text.isupper() and len(text.split()) > 2
        self._starts = True  # the next word begins a sentence, so its capital says nothing
        self._state = False  # a form of "be", "have" or "get" went before: -ing and -ed now carry meaning
        self._text = text
        self._out: list[str] = []
        self._pending = ""  # a mark that counts only if something follows it

    def tokens(self) -> tuple[str, ...]:
        if self._pending and self._out and self._out[-1] in _BEFORE_MARK:
            return (*self._out, self._pending)
        return tuple(self._out)

    def take(self, match: re.Match[str]) -> None:
        kind, piece = match.lastgroup, match.group()
        if self._pending and kind != "line" and (kind != "chunk" or piece.strip(_PROSE_MARKS)):
            self._out.append(self._pending)
            self._pending = ""
        if kind in ("han", "code"):
            self._out.append(piece)
        elif kind == "quote":
            self._quote(piece)
        elif kind == "line":
            self._starts = True
        else:
            before, after = self._text[match.start() - 1 : match.start()], self._text[match.end() : match.end() + 1]
            # "a fish . They ...": a full stop with a blank before it
            stops = piece in (".", "!", "?", ";", ":") and self._text[match.end() :].lstrip()[:1].isupper()
            self._pend(piece, alone=not before.strip() and not after.strip() and not stops)
            self._chunk(piece)
            self._starts = piece[-1] in ".!?:"

    def _pend(self, chunk: str, alone: bool) -> None:
        """Keeps a mark that says something where something follows: "what does . mean", "x - y", "Don't, cancel it"."""
        core = chunk.strip(_PROSE_MARKS)
        denied = core.lower() in _DENIALS if core else "".join(self._out[-2:]).endswith(_DENIALS_HAN)
        if not core and alone and not self._math:
            self._pending = chunk
        elif denied and chunk[0 if not core else -1] in _PAUSES:
            self._pending = "\0pause"

    def _quote(self, piece: str) -> None:
        inside = piece[1:-1].strip()
        if inside:
            self._out.append(inside)
        self._starts = False

    def _chunk(self, chunk: str) -> None:
        core = chunk.strip(_PROSE_MARKS)
        if not core:
            if self._math and chunk not in (".", ",", "?", "!"):
                self._out.append(chunk)
            return
        if _WORD.match(core) and not self._math_mark(chunk, core):
            self._word(core)
            return
        if not any(map(str.isdigit, core)) and "://" not in core and "@" not in core:
            pieces = re.split(r"[,;!?…。、]+|(?<=\w)--+(?=\w)", core)
            if len(pieces) > 1 and all(_WORD.match(piece) for piece in pieces):  # "in,please"
                for piece in pieces:
                    self._word(piece)
                return
        self._out.append(self._verbatim(chunk))

    def _math_mark(self, chunk: str, core: str) -> bool:
        """Whether a mark at the edge of a word belongs to it: ".NET", "(x", "n!"."""
        lead = _SIGN_LEADS.match(chunk)
        return (
            (lead is not None and lead.group() != "-")
            or (self._math and ("(" in chunk or ")" in chunk))
            or (len(core) == 1 and chunk.endswith("!"))
        )

    def _verbatim(self, chunk: str) -> str:
        if self._math:
            return chunk.rstrip(".,?") or chunk
        lead = _SIGN_LEADS.match(chunk)
        core = chunk.rstrip(_TRAILING)
        measured = _MEASURED.search(chunk.rstrip(".,;:?)…。、»—–~"))
        if measured and chunk[0] not in "'\"":
            core += measured.group()[1:]
        if core.endswith("!") and not core[-2:-1].isdigit():
            core = core.rstrip("!?.,")
        return core if lead else core.lstrip("\"'(¿¡«—–~.,;:")

    def _word(self, word: str) -> None:
        low = word.lower()
        named = bool(self._out) and self._out[-1] in _NAMING and low not in _SHORT_WORDS
        if not word.islower() and self._keeps_case(word, named):
            self._out.append(word)
            return
        name_like = word[0].isupper() and not self._starts and not self._shouted
        for part in self._expanded(low):
            self._out.append(part if name_like or not self._english else self._base(part))
            self._state = self._state or part in _STATE

    def _keeps_case(self, word: str, named: bool) -> bool:
        if named or (word in _TWO_FACED and not self._starts):
            return True
        if word.isupper() and len(word) == 1:
            return not (word == "I" or (word == "A" and (self._starts or self._shouted)))
        if self._shouted and (word in _SHOUTED_NAMES or word.title() in _TWO_FACED):
            return True
        if self._shouted:
            return len(word) < 4 and word.lower() not in _SHORT_WORDS and word not in _PLAIN_CAPITALS
        if word.isupper():
            return word not in _PLAIN_CAPITALS
        if word.lower() in _BRANDS:
            return False
        return not word[0].isupper() or sum(map(str.isupper, word)) > 1 + word.count("-") + word.count("'")

    def _expanded(self, word: str) -> list[str]:
        if not self._english:
            return [word]
        if word in _CONTRACTED:
            return _CONTRACTED[word].split()
        if word.endswith("n't"):
            return [word[:-3], "not"]
        return [word]

    def _base(self, word: str) -> str:
        return word if self._state and word.endswith("ing") else plain(word)
