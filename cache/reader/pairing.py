"""Two questions as one row of tokens, as the reader sees them. Pure.

`<s> query: A </s> query: B </s>`, and every token has a kind: whose it is, and whether the other text has it too. The
word in which two near questions differ is where their answers differ, and a small model finds it sooner when told."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Tokens = Sequence[int]
Ids = NDArray[np.int64]

PREFIX = "query: "  # what the e5 family wants before every text
WINDOW = 128  # tokens of both texts together
KINDS = 4  # first text: shared, own; second text: shared, own
START, END = 0, 2  # of the vocabulary of multilingual-e5, also in our cut of it
PAD = 1


def paired(a: Tokens, b: Tokens) -> tuple[list[int], list[int]]:
    """(ids, kinds) of a pair.  a, b: tokens of either text, special tokens included: `<s> … </s>`."""
    in_a, in_b = set(a), set(b)
    ids = [*a, *b[1:]]
    kinds = [0 if token in in_b else 1 for token in a] + [2 if token in in_a else 3 for token in b[1:]]
    return ids, kinds


def batched(pairs: Sequence[tuple[Tokens, Tokens]]) -> tuple[Ids, Ids, Ids]:
    """(ids, kinds, mask), each int64 (pairs, longest)."""
    rows = [paired(a, b) for a, b in pairs]
    longest = max(len(ids) for ids, _ in rows)
    ids = np.full((len(rows), longest), PAD, dtype=np.int64)
    kinds = np.zeros_like(ids)
    mask = np.zeros_like(ids)
    for row, (tokens, of_kind) in enumerate(rows):
        ids[row, : len(tokens)] = tokens
        kinds[row, : len(tokens)] = of_kind
        mask[row, : len(tokens)] = 1
    return ids, kinds, mask
