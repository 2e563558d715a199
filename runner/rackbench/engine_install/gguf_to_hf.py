"""Turn a GGUF of the llama architecture into a folder that vLLM serves.

Run by the engine's own interpreter: python gguf_to_hf.py FILE FOLDER
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGUFReader, dequantize  # type: ignore[import-not-found,unused-ignore]
from tokenizers import (  # type: ignore[import-not-found,unused-ignore]
    AddedToken,
    Tokenizer,
    decoders,
    models,
    pre_tokenizers,
)

_OUTER = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
_INNER = {
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
_CONTROL_TOKEN = 3
_USER_TOKEN = 4


class Facts:
    """The key-value part of a GGUF."""

    def __init__(self, reader: GGUFReader) -> None:
        self._fields = reader.fields

    def __call__(self, key: str, default: Any = None) -> Any:
        field = self._fields.get(key)
        return default if field is None else field.contents()


def convert(source: Path, folder: Path) -> None:
    """Write weights, configuration and tokenizer."""
    reader = GGUFReader(source)
    facts = Facts(reader)
    if (architecture := facts("general.architecture")) != "llama":
        sys.exit(f"{source} is of the architecture {architecture!r}; only llama is known here")
    folder.mkdir(parents=True)
    tensors = {}
    for tensor in reader.tensors:
        values = dequantize(tensor.data, tensor.tensor_type)
        tensors[target_name(tensor.name)] = bfloat16(restored(tensor.name, values, facts))
    write_safetensors(folder / "model.safetensors", tensors)
    tokenizer(facts).save(str(folder / "tokenizer.json"))
    for name, content in (
        ("config.json", config(facts, tied="lm_head.weight" not in tensors)),
        ("generation_config.json", token_ids(facts)),
        ("tokenizer_config.json", tokenizer_config(facts)),
    ):
        (folder / name).write_text(json.dumps(content, indent=2) + "\n")
    if template := facts("tokenizer.chat_template"):
        (folder / "chat_template.jinja").write_text(template)


def target_name(name: str) -> str:
    """A tensor's name in the folder."""
    stem, kind = name.rsplit(".", 1)
    if stem in _OUTER:
        return f"{_OUTER[stem]}.{kind}"
    _, layer, part = stem.split(".", 2)
    return f"model.layers.{layer}.{_INNER[part]}.{kind}"


def restored(name: str, values: np.ndarray, facts: Facts) -> np.ndarray:
    """Query and key rows as they were: GGUF interleaves the two halves of each rotary head."""
    for part, heads in (
        (".attn_q.", "llama.attention.head_count"),
        (".attn_k.", "llama.attention.head_count_kv"),
    ):
        if part in name:
            shape = values.shape
            halves = values.reshape(facts(heads), shape[0] // facts(heads) // 2, 2, *shape[1:])
            return halves.swapaxes(1, 2).reshape(shape)
    return values


def bfloat16(values: np.ndarray) -> np.ndarray:
    """The upper halves of 32-bit floats, rounded to the nearest, ties to even."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    return ((bits + (0x7FFF + ((bits >> 16) & 1))) >> 16).astype(np.uint16)


def write_safetensors(path: Path, tensors: dict[str, np.ndarray]) -> None:
    """Length of the header, the header, the values: the whole format."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for name, values in tensors.items():
        end = offset + values.nbytes
        header[name] = {"dtype": "BF16", "shape": values.shape, "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for values in tensors.values():
            file.write(values.tobytes())


def tokenizer(facts: Facts) -> Tokenizer:
    """Byte-level pairs; digits stand alone before them where the file says `smollm`."""
    if (kind := facts("tokenizer.ggml.model")) != "gpt2":
        sys.exit(f"the tokenizer is of the kind {kind!r}; only gpt2 is known here")
    tokens, types = facts("tokenizer.ggml.tokens"), facts("tokenizer.ggml.token_type")
    made = Tokenizer(
        models.BPE(
            vocab={token: number for number, token in enumerate(tokens)},
            merges=[tuple(pair.split(" ", 1)) for pair in facts("tokenizer.ggml.merges")],
        )
    )
    steps = [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)]
    if facts("tokenizer.ggml.pre") == "smollm":
        steps.insert(0, pre_tokenizers.Digits(individual_digits=True))
    made.pre_tokenizer = pre_tokenizers.Sequence(steps)
    made.decoder = decoders.ByteLevel()
    kinds = list(zip(tokens, types, strict=True))
    made.add_special_tokens(
        [
            AddedToken(token, special=True, normalized=False)
            for token, t in kinds
            if t == _CONTROL_TOKEN
        ]
    )
    made.add_tokens([AddedToken(token, normalized=False) for token, t in kinds if t == _USER_TOKEN])
    if made.get_vocab_size() != len(tokens):
        sys.exit(f"{made.get_vocab_size()} tokens came out of {len(tokens)}")
    return made


def config(facts: Facts, *, tied: bool) -> dict[str, Any]:
    """The model's shape."""
    heads, width = facts("llama.attention.head_count"), facts("llama.embedding_length")
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "torch_dtype": "bfloat16",
        "vocab_size": len(facts("tokenizer.ggml.tokens")),
        "hidden_size": width,
        "hidden_act": "silu",
        "intermediate_size": facts("llama.feed_forward_length"),
        "num_hidden_layers": facts("llama.block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": facts("llama.attention.head_count_kv"),
        "head_dim": facts("llama.attention.key_length", width // heads),
        "max_position_embeddings": facts("llama.context_length"),
        # Stored as a 32-bit float: 1e-5 comes back with noise behind it.
        "rms_norm_eps": round(float(facts("llama.attention.layer_norm_rms_epsilon")), 9),
        "rope_theta": float(facts("llama.rope.freq_base", 10000.0)),
        "tie_word_embeddings": tied,
        "attention_bias": False,
        "mlp_bias": False,
        **token_ids(facts),
    }


def token_ids(facts: Facts) -> dict[str, Any]:
    """Where texts begin, end and are filled up."""
    return {
        "bos_token_id": facts("tokenizer.ggml.bos_token_id"),
        "eos_token_id": facts("tokenizer.ggml.eos_token_id"),
        "pad_token_id": facts("tokenizer.ggml.padding_token_id"),
    }


def tokenizer_config(facts: Facts) -> dict[str, Any]:
    """What the tokenizer's file does not say."""
    tokens = facts("tokenizer.ggml.tokens")
    named = {
        key.removesuffix("_id"): tokens[number]
        for key, number in token_ids(facts).items()
        if number is not None
    }
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": facts("llama.context_length"),
        "clean_up_tokenization_spaces": False,
        "unk_token": tokens[facts("tokenizer.ggml.unknown_token_id", 0)],
        **named,
    }


if __name__ == "__main__":
    convert(Path(sys.argv[1]), Path(sys.argv[2]))
