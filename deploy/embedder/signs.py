"""Which family a sign belongs to, for the choice of a vocabulary."""

import unicodedata


def kind(sign: str) -> str:
    if sign == "\ufe0f":  # "show the sign before me as a picture"
        return "mark"
    name = unicodedata.name(sign, "")
    if name.startswith(("CJK UNIFIED", "CJK COMPATIBILITY")):
        return "han"
    if unicodedata.category(sign)[0] in "PSN":
        return "mark"
    return {"LATIN": "latin", "GREEK": "greek"}.get(name.split(" ")[0], "other")
