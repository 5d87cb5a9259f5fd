"""The reader as a torch network: out of an ONNX file, and back into one. Only training needs it (extra: train).

The weights come from constants of the graphs that `graph` builds: the shipped file is all that training needs."""

from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import numpy_helper
from torch import Tensor, nn
from torch.nn import functional

from cache.reader.graph import Bert, Floats, FourBits, reading, unpacked
from cache.reader.pairing import KINDS

HEADS = 12
EPSILON = 1e-12


class Layer(nn.Module):
    """One layer of BERT."""

    def __init__(self, hidden: int, inner: int, dropout: float) -> None:
        super().__init__()
        self.qkv = nn.Linear(hidden, 3 * hidden)
        self.ao = nn.Linear(hidden, hidden)
        self.aln = nn.LayerNorm(hidden, eps=EPSILON)
        self.fi = nn.Linear(hidden, inner)
        self.fo = nn.Linear(inner, hidden)
        self.oln = nn.LayerNorm(hidden, eps=EPSILON)
        self.dropout = nn.Dropout(dropout)

    def forward(self, state: Tensor, mask: Tensor) -> Tensor:
        batch, length, hidden = state.shape
        query, key, value = (
            part.view(batch, length, HEADS, hidden // HEADS).transpose(1, 2)
            for part in self.qkv(state).chunk(3, dim=-1)
        )
        seen = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        seen = seen.transpose(1, 2).reshape(batch, length, hidden)
        state = self.aln(state + self.dropout(self.ao(seen)))
        return self.oln(state + self.dropout(self.fo(functional.gelu(self.fi(state)))))


class Network(nn.Module):
    """ids, kinds, mask: int64 (batch, length) -> logits (batch,).  The table of words stays as it is: four bits."""

    def __init__(self, words: FourBits, places: Floats, layers: int, inner: int, dropout: float = 0.1) -> None:
        super().__init__()
        hidden = places.shape[1]
        self.words = words
        self.word: Tensor
        self.register_buffer("word", torch.from_numpy(words.values()).half(), persistent=False)
        self.places = nn.Parameter(torch.from_numpy(places.copy()))
        self.kinds = nn.Parameter(torch.zeros(KINDS, hidden))
        self.norm = nn.LayerNorm(hidden, eps=EPSILON)
        self.layers = nn.ModuleList([Layer(hidden, inner, dropout) for _ in range(layers)])
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(2 * hidden, hidden)
        self.out = nn.Linear(hidden, 1)

    def forward(self, ids: Tensor, kinds: Tensor, mask: Tensor) -> Tensor:
        state = functional.embedding(ids, self.word).float() + self.places[: ids.shape[1]] + self.kinds[kinds]
        return self.above(self.dropout(self.norm(state)), mask, 0)

    def above(self, state: Tensor, mask: Tensor, first: int) -> Tensor:
        """Logits from what comes out of the layers below `first`.  state: (batch, length, hidden)."""
        seen = mask[:, None, None, :].bool()
        for layer in list(self.layers)[first:]:
            state = layer(state, seen)
        weight = mask[:, :, None].to(state.dtype)
        mean = (state * weight).sum(dim=1) / weight.sum(dim=1)
        both = self.dropout(torch.cat([state[:, 0], mean], dim=1))
        return self.out(self.dropout(torch.tanh(self.head(both)))).squeeze(1)


def loaded(path: Path) -> Network:
    """From a model of `graph.embedding` (a start) or of `graph.reading` (to go on)."""
    model = onnx.load(str(path))
    constants = {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}
    layers = 1 + max(int(name.split(".")[0]) for name in constants if name.split(".")[0].isdecimal())
    words = unpacked(constants["word.w"], constants["word.s"])
    reader = Network(words, constants["places"].astype(np.float32), layers, constants["0.fi.w"].shape[1])

    def put(module: nn.Module, name: str, *, steps: bool = False) -> None:
        weights = constants[f"{name}.w"].astype(np.float32)
        if steps:
            weights = weights.T * constants[f"{name}.s"][:, None]
        state = {"weight": torch.from_numpy(weights.copy()), "bias": torch.from_numpy(constants[f"{name}.b"].copy())}
        module.load_state_dict(state)

    put(reader.norm, "ln")
    for number, layer in enumerate(reader.layers):
        for part in ("qkv", "ao", "fi", "fo"):
            put(getattr(layer, part), f"{number}.{part}", steps=True)
        for part in ("aln", "oln"):
            put(getattr(layer, part), f"{number}.{part}")
    if "kinds" in constants:
        with torch.no_grad():
            reader.kinds.copy_(torch.from_numpy(constants["kinds"].copy()))
        put(reader.head, "head")
        put(reader.out, "out")
    else:
        nn.init.normal_(reader.kinds, std=0.02)
    return reader


def exported(reader: Network, name: str) -> onnx.ModelProto:
    """As the integer graph that the proxy runs."""
    state = {key: value.detach().float().cpu().numpy() for key, value in reader.state_dict().items()}
    hidden = reader.places.shape[1]

    def weights(of: str) -> Floats:
        if of == "pos":
            return state["places"]
        if of == "type":
            return np.zeros((1, hidden), np.float32)
        if of.startswith("ln."):
            return state[f"norm.{_long(of[3:])}"]
        number, part, which = of.split(".")
        if part in ("q", "k", "v"):
            whole = state[f"layers.{number}.qkv.{_long(which)}"]
            at = "qkv".index(part) * hidden
            return whole[at : at + hidden]
        return state[f"layers.{number}.{part}.{_long(which)}"]

    bert = Bert(name, hidden, len(reader.layers), HEADS, EPSILON, reader.places.shape[0], reader.words, weights)
    inner = (state["head.weight"], state["head.bias"])
    outer = (state["out.weight"], state["out.bias"])
    return reading(bert, state["kinds"], inner, outer)


def _long(short: str) -> str:
    return {"w": "weight", "b": "bias"}[short]
