"""SmolLM2-135M-Instruct: GGUF Q4_1 → float32 LlamaForCausalLM, with the tokenizer rebuilt from the same file.

Q4_1 stores 32 weights as 4-bit q with half-precision d and m: w = q·d + m, which half precision cannot hold
exactly, so the folder is float32. GGUF interleaves each head's rotary halves in the query and key matrices
(rows 0, 1, 2, … are x₀, x_{d/2}, x₁, …); transformers wants them one half after the other.
The file names its pre-tokenizer "smollm": single digits, then GPT-2's byte-level pattern.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from heedful.core.errors import HeedfulError
from heedful.models.zoo.convert.folder import Tensors, write_json, write_tokenizer_config, write_weights

GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
LAYERS = 30
BLOCK = {  # GGUF's name in a block → transformers'
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
CONTROL = 3  # GGUF's token type of special tokens


def convert(source: Path, out: Path) -> None:
    """Llama, 30 layers, 9 heads (3 key-value), d 576; output tied to the embedding."""
    from gguf import GGUFReader

    reader = GGUFReader(source / GGUF)
    meta = {name: field.contents() for name, field in reader.fields.items() if "." in name}
    config = _config(meta)
    write_weights(out, _weights(reader, config), expected=2 + LAYERS * len(BLOCK))
    write_json(out / "config.json", config)
    ends = {name: config[name] for name in ("bos_token_id", "eos_token_id", "pad_token_id")}
    write_json(out / "generation_config.json", ends)
    _write_tokenizer(meta, out)


def _config(meta: dict[str, Any]) -> dict[str, Any]:
    width, heads = meta["llama.embedding_length"], meta["llama.attention.head_count"]
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "attention_bias": False,
        "bos_token_id": meta["tokenizer.ggml.bos_token_id"],
        "eos_token_id": meta["tokenizer.ggml.eos_token_id"],
        "pad_token_id": meta["tokenizer.ggml.padding_token_id"],
        "head_dim": width // heads,
        "hidden_act": "silu",
        "hidden_size": width,
        "intermediate_size": meta["llama.feed_forward_length"],
        "max_position_embeddings": meta["llama.context_length"],
        "num_attention_heads": heads,
        "num_hidden_layers": meta["llama.block_count"],
        "num_key_value_heads": meta["llama.attention.head_count_kv"],
        "rms_norm_eps": 1e-05,  # the file's float32 1e-5
        "rope_theta": meta["llama.rope.freq_base"],
        "rope_parameters": {"rope_type": "default", "rope_theta": meta["llama.rope.freq_base"]},
        "tie_word_embeddings": True,
        "vocab_size": meta["llama.vocab_size"],
        "dtype": "float32",
    }


def _weights(reader: Any, config: dict[str, Any]) -> Tensors:
    """Dequantise tensor by tensor and give each its transformers name."""
    from gguf import dequantize

    outer = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight"}
    heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}
    tensors: Tensors = {}
    for item in reader.tensors:
        value = dequantize(item.data, item.tensor_type)  # float32, (out, in)
        if item.name in outer:
            tensors[outer[item.name]] = value
            continue
        _, layer, part, _ = item.name.split(".")  # blk.LAYER.PART.weight
        value = _halves(value, heads[part]) if part in heads else value
        tensors[f"model.layers.{layer}.{BLOCK[part]}.weight"] = value
    return tensors


def _halves(w: NDArray[Any], heads: int) -> NDArray[Any]:
    """Undo GGUF's interleaving of rotary pairs: (H·d, D) rows x₀ x_{d/2} x₁ … → x₀ x₁ … x_{d/2} …"""
    pairs = w.reshape(heads, w.shape[0] // heads // 2, 2, w.shape[1])  # (H, d/2, 2, D)
    return pairs.swapaxes(1, 2).reshape(w.shape)


def _write_tokenizer(meta: dict[str, Any], out: Path) -> None:
    """Byte-level BPE from the file's tokens and merges, with its own chat template."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    if meta["tokenizer.ggml.pre"] != "smollm":
        raise HeedfulError(f"unknown pre-tokenizer {meta['tokenizer.ggml.pre']!r} in {GGUF}")
    tokens: list[str] = meta["tokenizer.ggml.tokens"]
    merges = [tuple(merge.split(" ")) for merge in meta["tokenizer.ggml.merges"]]
    vocabulary = {token: index for index, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    digits = pre_tokenizers.Digits(individual_digits=True)
    bytes_ = pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=True, use_regex=True)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([digits, bytes_])
    tokenizer.decoder = decoders.ByteLevel()
    kinds = meta["tokenizer.ggml.token_type"]
    special = [token for token, kind in zip(tokens, kinds, strict=True) if kind == CONTROL]
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])
    tokenizer.save(str(out / "tokenizer.json"), pretty=False)
    names = {"bos_token": "bos", "eos_token": "eos", "pad_token": "padding", "unk_token": "unknown"}
    write_tokenizer_config(
        out,
        window=meta["llama.context_length"],
        special={name: tokens[meta[f"tokenizer.ggml.{key}_token_id"]] for name, key in names.items()},
        inputs=("input_ids", "attention_mask"),
        chat_template=meta["tokenizer.chat_template"],
    )
