"""A BERT encoder as an ONNX graph whose layers compute in integers. The door to the package onnx.

`embedding` makes the graph of an embedder (token ids in, one unit vector per text out), `reading` that of the reader
(token ids and kinds of two texts in, one logit per pair out). Lives here: the graph. Must not live here: whose weights
they are."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

BLOCK = 32  # weights that share one scale in a table of four bits
STEPS = 63  # seven bits a weight, see Graph.linear
Floats = NDArray[np.float32]


@dataclass(frozen=True)
class FourBits:
    """A table whose value is (nibble - 8) * scale.

    nibbles: uint8 0..15, shape (rows, columns).  scales: float16, shape (rows, columns / 32)."""

    nibbles: NDArray[np.uint8]
    scales: NDArray[np.float16]

    def values(self) -> Floats:
        return (self.nibbles.astype(np.float32) - 8) * np.repeat(self.scales.astype(np.float32), BLOCK, axis=1)

    def packed(self) -> NDArray[np.uint8]:
        """Two neighbours to a byte, the first in the low half: (rows, blocks, 16)."""
        rows, columns = self.nibbles.shape
        pairs = self.nibbles.reshape(rows, columns // BLOCK, BLOCK // 2, 2)
        return np.asarray(pairs[..., 0] | (pairs[..., 1] << 4), dtype=np.uint8)


def unpacked(packed: NDArray[np.uint8], scales: NDArray[np.float16]) -> FourBits:
    """What `FourBits.packed` packed.  packed: (rows, blocks, 16).  scales: (rows, blocks, 1)."""
    pairs = np.stack([packed & 15, packed >> 4], axis=-1)
    return FourBits(pairs.reshape(packed.shape[0], -1), scales.reshape(packed.shape[0], -1))


@dataclass(frozen=True)
class Bert:
    """weights: by the names `word pos type ln.w ln.b` and, in layer i, `i.q.w i.q.b` …: parts q k v (attention),
    ao (its output), fi fo (inner layer and back), aln oln (norms).  word: four bits where the source has no more.

    centre: subtracted from the unit vector, which is then made one again; None = nothing."""

    name: str
    hidden: int
    layers: int
    heads: int
    epsilon: float
    window: int
    word: FourBits | Floats
    weights: Callable[[str], Floats]
    centre: Floats | None = None


def in_steps(values: Floats, steps: int) -> tuple[NDArray[np.int8], Floats]:
    """Whole numbers from -steps to steps and one scale a row."""
    scales = np.maximum(np.abs(values).max(axis=1), 1e-12) / steps
    return np.round(values / scales[:, None]).astype(np.int8), scales.astype(np.float32)


class Graph:
    """Nodes and constants in the order in which they are made."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self._shared: set[str] = set()

    def constant(self, name: str, value: NDArray[np.generic]) -> str:
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def shared(self, name: str, value: object, kind: type[np.generic]) -> str:
        if name not in self._shared:
            self._shared.add(name)
            self.constant(name, np.array(value, kind))
        return name

    def node(self, kind: str, *inputs: str, outputs: int = 1, domain: str = "", **attributes: Any) -> list[str]:
        names = [f"{kind}_{len(self.nodes)}_{number}" for number in range(outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), names, domain=domain, **attributes))
        return names

    def one(self, kind: str, *inputs: str, **attributes: Any) -> str:
        return self.node(kind, *inputs, **attributes)[0]

    def linear(self, value: str, name: str, weights: Floats) -> str:
        """value @ weights.T in integers; the bias is added by the node that follows.

        Every token has its own scale. The usual recipe (quantize_dynamic) takes one for the whole batch: then the
        vector of a text depends on who shares its batch, and cosines are off by 0.005 instead of 0.003. Seven bits,
        because with eight processors without VNNI overflow their sums of 16 bits."""
        numbers, scales = in_steps(weights, STEPS)
        largest = self.one("ReduceMax", self.one("Abs", value), self.shared("columns", [2], np.int64), keepdims=1)
        scale = self.one("Mul", largest, self.shared("step", 1 / 127, np.float32))
        steps = self.one("Round", self.one("Div", value, scale))
        middle = self.one("Add", steps, self.shared("middle.float", 128, np.float32))
        whole = self.one("Cast", middle, to=TensorProto.UINT8)
        product = self.one(
            "MatMulInteger", whole, self.constant(f"{name}.w", numbers.T), self.shared("middle.byte", 128, np.uint8)
        )
        product = self.one("Mul", self.one("Cast", product, to=TensorProto.FLOAT), self.constant(f"{name}.s", scales))
        return self.one("Mul", product, scale)

    def unit(self, value: str) -> str:
        length = self.one("ReduceL2", value, self.shared("along", [1], np.int64), keepdims=1)
        return self.one("Div", value, length)

    def model(self, name: str, inputs: tuple[str, ...], result: str, shape: list[str | int | None]) -> onnx.ModelProto:
        """The finished model.  inputs: names of int64 tensors (batch, length)."""
        told = [helper.make_tensor_value_info(each, TensorProto.INT64, ["batch", "length"]) for each in inputs]
        output = helper.make_tensor_value_info(result, TensorProto.FLOAT, shape)
        made = helper.make_graph(self.nodes, name, told, [output], self.constants)
        opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(made, opset_imports=opsets, ir_version=9, producer_name="rejoinder")


def embedding(bert: Bert) -> onnx.ModelProto:
    """input_ids, attention_mask -> embedding (batch, hidden), unit vectors."""
    graph = Graph()
    state = _encoded(graph, bert, None)
    pooled = _pool(graph, bert, state)
    graph.nodes.append(helper.make_node("Identity", [pooled], ["embedding"]))
    return graph.model(bert.name, ("input_ids", "attention_mask"), "embedding", ["batch", bert.hidden])


def reading(bert: Bert, kinds: Floats, inner: tuple[Floats, Floats], outer: tuple[Floats, Floats]) -> onnx.ModelProto:
    """input_ids, token_type_ids, attention_mask -> logit (batch,).

    kinds: (4, hidden), added to a token by its kind.  inner: weights (hidden, 2 hidden) and bias of the layer over
    first token and mean.  outer: weights (1, hidden) and bias."""
    graph = Graph()
    state = _encoded(graph, bert, kinds)
    first = graph.one(
        "Squeeze", graph.one("Slice", state, graph.shared("zero", [0], np.int64), graph.shared("one", [1], np.int64),
                             graph.shared("along", [1], np.int64)), graph.shared("along", [1], np.int64),
    )  # fmt: skip
    both = graph.one("Concat", first, _mean(graph, state), axis=1)
    hidden = graph.one("Gemm", both, graph.constant("head.w", inner[0]), graph.constant("head.b", inner[1]), transB=1)
    hidden = graph.one("Tanh", hidden)
    out = graph.one("Gemm", hidden, graph.constant("out.w", outer[0]), graph.constant("out.b", outer[1]), transB=1)
    graph.nodes.append(helper.make_node("Squeeze", [out, graph.shared("along", [1], np.int64)], ["logit"]))
    return graph.model(bert.name, ("input_ids", "token_type_ids", "attention_mask"), "logit", ["batch"])


def lower(model: onnx.ModelProto, layers: int) -> onnx.ModelProto:
    """The same graph up to what comes out of its first layers, named `state`: (batch, length, hidden). At least one."""
    norms = [each for each in model.graph.node if each.op_type == "SkipLayerNormalization"]
    cut = onnx.ModelProto()
    cut.CopyFrom(model)
    del cut.graph.output[:]
    cut.graph.node.append(helper.make_node("Identity", [norms[2 * layers - 1].output[0]], ["state"]))
    cut.graph.output.append(helper.make_tensor_value_info("state", TensorProto.FLOAT, ["batch", "length", None]))
    return cut


def _encoded(graph: Graph, bert: Bert, kinds: Floats | None) -> str:
    state = _embed(graph, bert, kinds)
    mask = graph.one("Cast", "attention_mask", to=TensorProto.INT32)
    for layer in range(bert.layers):
        state = _layer(graph, bert, layer, state, mask)
    return state


def _embed(graph: Graph, bert: Bert, kinds: Floats | None) -> str:
    words = _unpack(graph, bert.word) if isinstance(bert.word, FourBits) else _look_up(graph, bert.word)
    places = graph.constant("places", bert.weights("pos")[: bert.window] + bert.weights("type")[0])
    length = graph.one("Shape", "input_ids", start=1, end=2)
    here = graph.one("Slice", places, graph.shared("zero", [0], np.int64), length)
    summed = graph.one("Add", words, here)
    if kinds is not None:
        kind = graph.one("Gather", graph.constant("kinds", kinds), "token_type_ids", axis=0)
        summed = graph.one("Add", summed, kind)
    gain, shift = graph.constant("ln.w", bert.weights("ln.w")), graph.constant("ln.b", bert.weights("ln.b"))
    return graph.one("LayerNormalization", summed, gain, shift, axis=-1, epsilon=bert.epsilon)


def _look_up(graph: Graph, table: Floats) -> str:
    numbers, scales = in_steps(table, 127)
    rows = graph.one("Gather", graph.constant("word.w", numbers), "input_ids", axis=0)
    scale = graph.one("Gather", graph.constant("word.s", scales[:, None]), "input_ids", axis=0)
    return graph.one("Mul", graph.one("Cast", rows, to=TensorProto.FLOAT), scale)


def _unpack(graph: Graph, table: FourBits) -> str:
    """Rows are unpacked after they were looked up, so the table stays small in memory, too."""
    columns = table.nibbles.shape[1]
    rows = graph.one("Gather", graph.constant("word.w", table.packed()), "input_ids", axis=0)
    scales = graph.one("Gather", graph.constant("word.s", table.scales[..., None]), "input_ids", axis=0)
    high = graph.one("BitShift", rows, graph.shared("four", 4, np.uint8), direction="RIGHT")
    low = graph.one("BitwiseAnd", rows, graph.shared("fifteen", 15, np.uint8))
    last = graph.shared("last", [-1], np.int64)
    pairs = graph.one("Concat", graph.one("Unsqueeze", low, last), graph.one("Unsqueeze", high, last), axis=-1)
    nibbles = graph.one("Reshape", pairs, graph.shared("blocks", [0, 0, columns // BLOCK, BLOCK], np.int64))
    values = graph.one("Cast", nibbles, to=TensorProto.FLOAT)
    values = graph.one("Sub", values, graph.shared("eight", 8, np.float32))
    values = graph.one("Mul", values, graph.one("Cast", scales, to=TensorProto.FLOAT))
    return graph.one("Reshape", values, graph.shared("flat", [0, 0, columns], np.int64))


def _layer(graph: Graph, bert: Bert, layer: int, state: str, mask: str) -> str:
    def weights(part: str) -> Floats:
        return bert.weights(f"{layer}.{part}")

    def plain(part: str) -> str:
        return graph.constant(f"{layer}.{part}", weights(part))

    def add_and_norm(new: str, old: str, norm: str, bias: str) -> str:
        return graph.one(
            "SkipLayerNormalization",
            new,
            old,
            plain(f"{norm}.w"),
            plain(f"{norm}.b"),
            plain(bias),
            domain="com.microsoft",
            epsilon=bert.epsilon,
        )

    together = graph.linear(state, f"{layer}.qkv", np.concatenate([weights(f"{part}.w") for part in "qkv"]))
    query, key, value = graph.node("Split", together, outputs=3, axis=-1, num_outputs=3)
    bias = graph.constant(f"{layer}.qkv.b", np.concatenate([weights(f"{part}.b") for part in "qkv"]))
    seen = graph.one("MultiHeadAttention", query, key, value, bias, mask, domain="com.microsoft", num_heads=bert.heads)
    told = graph.linear(seen, f"{layer}.ao", weights("ao.w"))
    state = add_and_norm(told, state, "aln", "ao.b")
    inner = graph.linear(state, f"{layer}.fi", weights("fi.w"))
    inner = graph.one("BiasGelu", inner, plain("fi.b"), domain="com.microsoft")
    outer = graph.linear(inner, f"{layer}.fo", weights("fo.w"))
    return add_and_norm(outer, state, "oln", "fo.b")


def _summed(graph: Graph, state: str) -> str:
    weight = graph.one("Cast", "attention_mask", to=TensorProto.FLOAT)
    weight = graph.one("Unsqueeze", weight, graph.shared("third", [2], np.int64))
    return graph.one("ReduceSum", graph.one("Mul", state, weight), graph.shared("along", [1], np.int64), keepdims=0)


def _mean(graph: Graph, state: str) -> str:
    weight = graph.one("Cast", "attention_mask", to=TensorProto.FLOAT)
    count = graph.one("ReduceSum", weight, graph.shared("along", [1], np.int64), keepdims=1)
    return graph.one("Div", _summed(graph, state), count)


def _pool(graph: Graph, bert: Bert, state: str) -> str:
    """Mean over the real tokens, unit length; then, where there is one, away from the centre."""
    pooled = graph.unit(_summed(graph, state))
    if bert.centre is None:
        return pooled
    return graph.unit(graph.one("Sub", pooled, graph.constant("centre", bert.centre)))
