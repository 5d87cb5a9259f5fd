"""Which language a text is in, told from its script and its small words.

Only English ("en") and Chinese ("zh") can be read by our guards; everything else that can be recognised is "other"
and is never matched by meaning. "und" means that there are no letters to tell by. Cheap and deterministic: no model, no
tables beyond what stands here. When a short Latin text gives no evidence at all it counts as English.
"""

import re

from cache.words import words

_LETTER = re.compile(r"[^\W\d_]")
_HAN = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")
_KANA = re.compile(r"[\u3041-\u30ff\uff66-\uff9f]")
# Simplified forms that only Japanese uses: a kanji-only Japanese text is recognised by them.
_JAPANESE_ONLY = re.compile(
    "[気駅図売込働沢桜広県帰変楽発経対伝転戻払渋検験険剣権観歓釈訳択拡蔵雑鉄銭関円読説続総緑様両毎黒徳収営労効単厳圧団]"
)
_JAPANESE_SURE = re.compile("[気駅図売込働沢桜県帰変楽発経対伝転戻払渋験険剣権観歓釈訳択拡蔵]")
_OTHER_SCRIPT = re.compile(
    r"[\u0370-\u052f\u0531-\u058f\u0590-\u08ff\u0900-\u109f\u10a0-\u11ff\u1200-\u137f\u1780-\u17ff\uac00-\ud7af]"
)
_LATIN_WORD = re.compile(
    r"[a-zA-Z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u1e00-\u1eff]+(?:['’][a-zA-Z\u00c0-\u024f]+)*"
)
_FOREIGN_LETTER = re.compile(r"[\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u1e00-\u1eff¿¡]")
_FOREIGN_ENDING = re.compile(r".{4,}(?:ungen|keit|keiten|schaft|ción|ciones|zione|zioni|ção|ções|eux|euses|ijk|lijk)$")

_ENGLISH = words("""
    the a an is are was were be been am do does did have has had i you he she it we they my your his her its our
    their me him us them this that these those what which who whom whose when where why how can could will would
    shall should may might must not no and or but if of to in on at by for with from about into over after before
    than then there here please tell give show find help need want get make know any some all only more most much
    many too very just im dont cant whats hows wheres doesnt isnt wont and out up off new set play remind call turn
    """)
# Small and frequent words of other Latin-script languages that are no English words.
_FOREIGN = (
    words("""
    der das und ist ich nicht ein eine einen einem mein meine meinen meinem wie kann wo wann warum wer mit für auf
    von zu zum zur bei wird werden haben sind sie wir ihr euer bitte kein keine oder auch noch passwort konto
    bestellung wetter morgen heute le les une des du est je ne pas vous nous il elle ils mon ma mes votre vos notre
    quel quelle quels quelles comment où quand pourquoi qui que avec dans sur puis peux peut faire mot passe compte
    commande merci bonjour quoi sont ce cette el los las una unos y es yo tú usted mi mis su sus qué cómo dónde
    cuándo cuál quién por para con del al se puedo puede cuenta contraseña pedido gracias hola cuanto cuánto cuesta
    está como donde cuando quiero hacer lo gli un uno della delle dei degli nel nella sono non mio mia tuo vostro
    che chi come dove quando perché posso puoi quanto quale questo questa grazie ciao ordine os uma umas do da dos
    das no na nos nas eu não meu minha seu sua você vocês onde quem quanto qual posso pode fazer senha conta pedido
    obrigado olá isso este esta het een ik niet mijn jouw uw hoe waar wanneer waarom wie wat kan kunnen zijn ben
    naar voor met van wij jullie och att det som är jag inte min mitt hur var när varför vem vad kan på till från
    med og jeg ikke hvordan hvor hvorfor hvem hva hvad til fra w z jest nie się jak gdzie kiedy dlaczego kto co czy
    mogę moje mój na do ve bir bu nasıl nerede neden kim ne için ile benim değil mi mı ja ei on se että miten missä
    milloin miksi kuka si nu este sunt cum unde de ce cine pentru meu mea và là không của tôi bạn như thế nào ở đâu
    khi yang dan di ke dari tidak saya anda bagaimana kapan mengapa siapa apa untuk dengan ini itu cara
    """)
    - _ENGLISH
    - words("on do no as me come so per de la co para con son mi si ma ne se w z y un al di e es")
)


def language(text: str) -> str:
    """One of "en", "zh", "other"; "und" where nothing can be told.

    A Chinese sentence around Latin names is "zh"; an English sentence that quotes a Chinese word is "en"."""
    if text.isascii():
        return _latin(text)
    if not _LETTER.search(text):
        return "und"
    han = len(_HAN.findall(text))
    kana = len(_KANA.findall(text))
    if kana > 1 or (kana and not han):
        return "other" if kana * 4 >= han else "zh"
    strange = len(_OTHER_SCRIPT.findall(text))
    latin = _LATIN_WORD.findall(text)
    if strange * 2 > han + sum(map(len, latin)):
        return "other"
    if han:
        if len(_JAPANESE_ONLY.findall(text)) >= 2 or _JAPANESE_SURE.search(text):
            return "other"
        if han > len(latin) or not any(word.lower() in _ENGLISH for word in latin):
            return "zh"
    return _latin(text)


def _latin(text: str) -> str:
    latin = [word.lower() for word in _LATIN_WORD.findall(text)]
    if not latin:
        return "und"
    english = foreign = 0
    for word in latin:
        if word in _ENGLISH or "'" in word or "’" in word:
            english += 1
        elif word in _FOREIGN or _FOREIGN_ENDING.match(word):
            foreign += 1
    if not text.isascii():
        letters = len(_FOREIGN_LETTER.findall(text))
        if letters and not english:
            foreign += 1
        if "¿" in text or "¡" in text:
            foreign += 2
    return "other" if foreign > english or (foreign and not english) else "en"
