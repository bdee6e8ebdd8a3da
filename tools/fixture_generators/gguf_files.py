"""Tiny Llama models as GGUF files, written the way llama.cpp's converter lays them out."""

import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import gguf
import numpy as np

from . import models
from . import tokenizer as tiny_tokenizer
from .converter import gguf_to_mlx
from .files import write_safetensors
from .gguf_blocks import K_TYPES, encode, qtype, random_k_blocks
from .references import HuggingFace, MlxLm

_NAMES = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}


@dataclass(frozen=True)
class Spec:
    """One file. `types` maps a GGUF name without layer and suffix to a tensor type."""

    name: str
    seed: int
    types: dict  # "" is the default; norms and biases are always F32
    file_type: str
    config: dict = field(default_factory=dict)
    tensors_per_part: int = 0  # more than 0: a split file


_UNTIED = {"tie_word_embeddings": False}
_WIDE = {
    "hidden_size": 256,
    "intermediate_size": 256,
    "head_dim": 64,
    "num_hidden_layers": 1,
}

SPECS = [
    Spec("llama-tiny-f32", 3201, {"": "f32"}, "ALL_F32", _UNTIED),
    Spec("llama-tiny-f16", 2202, {"": "f16"}, "MOSTLY_F16"),
    Spec("llama-tiny-bf16", 203, {"": "bf16"}, "MOSTLY_BF16", {"head_dim": 32, "attention_bias": True}),
    Spec("llama-tiny-q8_0", 12204, {"": "q8_0"}, "MOSTLY_Q8_0", _UNTIED),
    Spec("llama-tiny-q4_0", 31205, {"": "q4_0"}, "MOSTLY_Q4_0"),
    Spec("llama-tiny-q4_1", 7206, {"": "q4_1", "token_embd": "q8_0"}, "MOSTLY_Q4_1"),
    Spec("llama-tiny-q5_0", 14207, {"": "q5_0"}, "MOSTLY_Q5_0"),
    Spec("llama-tiny-q5_1", 6208, {"": "q5_1", "output": "q8_0"}, "MOSTLY_Q5_1", _UNTIED),
    Spec(
        "llama-tiny-rope3-f16",
        16209,
        {"": "f16"},
        "MOSTLY_F16",
        {"rope_scaling": models.LLAMA3_SCALING, "rope_theta": 50000.0},
    ),
    Spec(
        "llama-tiny-rope-linear-f16",
        6210,
        {"": "f16"},
        "MOSTLY_F16",
        {"rope_scaling": {"type": "linear", "factor": 4.0}},
    ),
    Spec(
        "llama-tiny-q4_k",
        9211,
        {"": "q4_k", "attn_v": "q6_k", "ffn_down": "q6_k", "token_embd": "q6_k"},
        "MOSTLY_Q4_K_M",
        _WIDE,
    ),
    Spec(
        "llama-tiny-kquants",
        22212,
        {
            "": "q5_k",
            "attn_q": "q4_k",
            "attn_v": "q3_k",
            "attn_output": "q2_k",
            "ffn_up": "q6_k",
            "ffn_down": "q3_k",
            "token_embd": "q2_k",
        },
        "MOSTLY_Q2_K",
        _WIDE,
    ),
    Spec("llama-tiny-split", 1213, {"": "q8_0"}, "MOSTLY_Q8_0", tensors_per_part=12),
]


def gguf_name(name):
    """model.layers.0.mlp.up_proj.weight -> blk.0.ffn_up.weight"""
    module, _, suffix = name.rpartition(".")
    top = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
    if module in top:
        return f"{top[module]}.{suffix}"
    _, _, layer, rest = module.split(".", 3)
    return f"blk.{layer}.{_NAMES[rest]}.{suffix}"


def interleaved_rows(count, heads):
    """Source row of each stored row: GGUF's Llama rotates neighbours, so rows i and i + half alternate."""
    return np.arange(count).reshape(heads, 2, -1).transpose(0, 2, 1).reshape(-1)


def llama3_frequency_factors(config):
    """What llama.cpp's converter stores in rope_freqs.weight, float32 [head_dim / 2]."""
    scaling = config["rope_scaling"]
    original = scaling["original_max_position_embeddings"]
    low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
    dims = config["head_dim"]
    wavelengths = 2 * np.pi * config["rope_theta"] ** (np.arange(0, dims, 2) / dims)
    smooth = (original / wavelengths - low) / (high - low)
    between = 1 / ((1 - smooth) / scaling["factor"] + smooth)
    factors = np.where(wavelengths > original / low, scaling["factor"], between)
    return np.where(wavelengths < original / high, 1.0, factors).astype(np.float32)


def _add_metadata(writer, spec, config, tokenizer):
    tokens, merges = tiny_tokenizer.gguf_vocabulary(tokenizer)
    kinds = [gguf.TokenType.NORMAL] * len(tokens)
    kinds[: len(tiny_tokenizer.SPECIAL_TOKENS)] = [gguf.TokenType.CONTROL] * len(tiny_tokenizer.SPECIAL_TOKENS)
    writer.add_type(gguf.GGUFType.MODEL)
    writer.add_name(spec.name)
    writer.add_file_type(gguf.LlamaFileType[spec.file_type])
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_dimension_count(config["head_dim"])
    writer.add_rope_freq_base(config["rope_theta"])
    if config["head_dim"] * config["num_attention_heads"] != config["hidden_size"]:
        writer.add_key_length(config["head_dim"])
        writer.add_value_length(config["head_dim"])
    if (config["rope_scaling"] or {}).get("type") == "linear":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(config["rope_scaling"]["factor"])
    writer.add_vocab_size(config["vocab_size"])
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_merges(merges)
    writer.add_bos_token_id(tiny_tokenizer.IM_START)
    writer.add_eos_token_id(tiny_tokenizer.IM_END)
    writer.add_unk_token_id(tiny_tokenizer.END_OF_TEXT)
    writer.add_pad_token_id(tiny_tokenizer.IM_END)
    writer.add_add_bos_token(False)
    writer.add_add_space_prefix(False)
    writer.add_chat_template(tiny_tokenizer.CHAT_TEMPLATE)


def _converted(spec, config, directory):
    """mlx-lm on the written file, which checks metadata and layout by reading them back."""
    if spec.tensors_per_part or (config["rope_scaling"] or {}).get("rope_type") == "llama3":
        return None  # not converted
    with tempfile.TemporaryDirectory() as scratch:
        gguf_to_mlx.convert(directory / f"{spec.name}.gguf", scratch)
        return MlxLm(Path(scratch))


def make(spec, root, tokenizer):
    """Writes one file (or its parts) and <name>.golden.safetensors under fixtures/gguf."""
    directory = root / "gguf"
    directory.mkdir(parents=True, exist_ok=True)
    config = {**models.base_config(), **spec.config}
    rng = np.random.Generator(np.random.PCG64([spec.seed, 2]))
    writer = gguf.GGUFWriter(directory / f"{spec.name}.gguf", "llama", split_max_tensors=spec.tensors_per_part)
    _add_metadata(writer, spec, config, tokenizer)

    exact = {}
    for name, values in models.random_weights(config, spec.seed).items():
        stored_name = gguf_name(name)
        part = stored_name.split(".")[-2]
        kind = "f32" if values.ndim == 1 else spec.types.get(part, spec.types[""])
        heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}.get(part)
        order = np.arange(len(values)) if heads is None else interleaved_rows(len(values), heads)
        if kind in K_TYPES:
            stored = random_k_blocks(rng, *values.shape, kind, float(values.std()))
            decoded = gguf.dequantize(stored, qtype(kind))
        else:
            stored, decoded = encode(values[order], kind)
        plain = kind in ("f32", "f16")
        writer.add_tensor(stored_name, stored, raw_dtype=None if plain else qtype(kind))
        exact[name] = np.empty_like(values)
        exact[name][order] = decoded
    if (config["rope_scaling"] or {}).get("rope_type") == "llama3":
        writer.add_tensor("rope_freqs.weight", llama3_frequency_factors(config))

    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    tensors = models.golden(spec.seed, HuggingFace.from_weights(config, exact), _converted(spec, config, directory))
    write_safetensors(directory / f"{spec.name}.golden.safetensors", tensors)
    return {"seed": spec.seed, "gap": float(tensors["greedy_gap_hf"].min())}
