#!/usr/bin/env python3
"""Writes a random model of a published shape, for speed measurements where no real model is at hand.

    benchmarks/peers/random_model.py --shape llama-3.2-1b --output DIR

DIR then holds the same weights, drawn from normal(0, 0.02) and rounded to float16, in two forms:
config.json, model.safetensors and tokenizer.json, where every matrix is affine 4-bit in groups of 64
(codes of MLX's layout, scales and biases in bfloat16), and dense.gguf in float16, with Q4_1.gguf and
Q4_0.gguf made from it by llama-quantize (--dense-only leaves those out). The vocabulary is generated:
byte pairs in order. Works through one matrix at a time. Runs in the environment of `setup.sh mlx-lm`.
"""

import argparse
import json
import math
from pathlib import Path

import gguf
import numpy as np
from gguf_to_mlx import rotary_order
from model_files import converted

SEED = 20240607
DEVIATION = 0.02
GROUP_SIZE = 64
BITS = 4
BLOCK_ROWS = 4096  # rows that are widened to float32 at a time

SHAPES = {
    "llama-3.2-1b": {
        "architectures": ["LlamaForCausalLM"],
        "attention_bias": False,
        "bos_token_id": 128254,
        "eos_token_id": 128255,
        "head_dim": 64,
        "hidden_act": "silu",
        "hidden_size": 2048,
        "intermediate_size": 8192,
        "max_position_embeddings": 131072,
        "mlp_bias": False,
        "model_type": "llama",
        "num_attention_heads": 32,
        "num_hidden_layers": 16,
        "num_key_value_heads": 8,
        "rms_norm_eps": 1e-05,
        "rope_scaling": {
            "factor": 32.0,
            "high_freq_factor": 4.0,
            "low_freq_factor": 1.0,
            "original_max_position_embeddings": 8192,
            "rope_type": "llama3",
        },
        "rope_theta": 500000.0,
        "tie_word_embeddings": True,
        "torch_dtype": "bfloat16",
        "vocab_size": 128256,
    },
    # So little to compute that a step's time is what the program itself costs.
    "overhead-28-layers": {
        "architectures": ["LlamaForCausalLM"],
        "attention_bias": False,
        "bos_token_id": 510,
        "eos_token_id": 511,
        "head_dim": 32,
        "hidden_act": "silu",
        "hidden_size": 64,
        "intermediate_size": 64,
        "max_position_embeddings": 2048,
        "mlp_bias": False,
        "model_type": "llama",
        "num_attention_heads": 2,
        "num_hidden_layers": 28,
        "num_key_value_heads": 1,
        "rms_norm_eps": 1e-05,
        "rope_theta": 10000.0,
        "tie_word_embeddings": True,
        "torch_dtype": "bfloat16",
        "vocab_size": 512,
    },
}


def tensors(config):
    """(name here, name in GGUF, rows, columns) in the order of the files; a norm has no rows."""
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    queries = config["num_attention_heads"] * config["head_dim"]
    keys = config["num_key_value_heads"] * config["head_dim"]
    yield "model.embed_tokens", "token_embd", config["vocab_size"], hidden
    for layer in range(config["num_hidden_layers"]):
        here, there = f"model.layers.{layer}", f"blk.{layer}"
        yield f"{here}.input_layernorm", f"{there}.attn_norm", None, hidden
        yield f"{here}.self_attn.q_proj", f"{there}.attn_q", queries, hidden
        yield f"{here}.self_attn.k_proj", f"{there}.attn_k", keys, hidden
        yield f"{here}.self_attn.v_proj", f"{there}.attn_v", keys, hidden
        yield f"{here}.self_attn.o_proj", f"{there}.attn_output", hidden, queries
        yield f"{here}.post_attention_layernorm", f"{there}.ffn_norm", None, hidden
        yield f"{here}.mlp.gate_proj", f"{there}.ffn_gate", inner, hidden
        yield f"{here}.mlp.up_proj", f"{there}.ffn_up", inner, hidden
        yield f"{here}.mlp.down_proj", f"{there}.ffn_down", hidden, inner
    yield "model.norm", "output_norm", None, hidden


def dense(index, rows, columns):
    """Matrix number `index` in float16: its values depend on nothing else."""
    generator = np.random.Generator(np.random.PCG64([SEED, index]))
    matrix = np.empty((rows, columns), dtype=np.float16)
    for start in range(0, rows, BLOCK_ROWS):
        block = generator.standard_normal((min(BLOCK_ROWS, rows - start), columns), dtype=np.float32)
        matrix[start : start + BLOCK_ROWS] = block * np.float32(DEVIATION)
    return matrix


def bfloat16(values):
    """The bits, rounded to nearest even."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    return ((bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)).astype(np.uint16)


def widened(bits):
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def quantize(matrix):
    """(packed codes, scales, biases) of a float16 matrix, the last two as bfloat16 bits."""
    parts = []
    for start in range(0, len(matrix), BLOCK_ROWS):
        block = matrix[start : start + BLOCK_ROWS].astype(np.float32)
        groups = block.reshape(len(block), -1, GROUP_SIZE)
        low, high = groups.min(axis=-1), groups.max(axis=-1)
        biases = bfloat16(low)
        scales = bfloat16((high - widened(biases)) / (2**BITS - 1))
        steps = (groups - widened(biases)[..., None]) / widened(scales)[..., None]
        codes = np.clip(np.rint(steps), 0, 2**BITS - 1).astype(np.uint8).reshape(block.shape)
        packed = (codes[:, 0::2] | codes[:, 1::2] << 4).view(np.uint32)
        parts.append((packed, scales, biases))
    return tuple(np.concatenate(part) for part in zip(*parts))


def vocabulary(size):
    """(tokens, merges): bytes, pairs of bytes, pairs with one more byte, and two special tokens at the end."""
    plain = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    letters = [chr(c) for c in plain] + [chr(256 + i) for i in range(256 - len(plain))]
    count = size - len(letters) - 2
    pairs = [(a, b) for a in letters for b in letters][:count]
    triples = ((a + b, c) for a, b in pairs for c in letters)
    merges = pairs + [next(triples) for _ in range(count - len(pairs))]
    return letters + [a + b for a, b in merges] + ["<|begin_of_text|>", "<|end_of_text|>"], merges


def tokenizer(tokens, merges):
    """A byte-level tokenizer.json."""
    special = [
        {"id": i, "content": tokens[i], "special": True, "normalized": False, "single_word": False}
        | {"lstrip": False, "rstrip": False}
        for i in (len(tokens) - 2, len(tokens) - 1)
    ]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": special,
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": None,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "vocab": {token: i for i, token in enumerate(tokens)},
            "merges": [list(merge) for merge in merges],
        },
    }


def rope_factors(config):
    """What llama.cpp divides the frequencies by (rope_freqs.weight)."""
    dimensions = config["head_dim"]
    if "rope_scaling" not in config:
        return np.ones(dimensions // 2, dtype=np.float32)
    scaling = config["rope_scaling"]
    context = scaling["original_max_position_embeddings"]
    low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
    factors = []
    for i in range(0, dimensions, 2):
        wavelength = 2 * math.pi * config["rope_theta"] ** (i / dimensions)
        if wavelength < context / high:
            factors.append(1.0)
        elif wavelength > context / low:
            factors.append(scaling["factor"])
        else:
            smooth = (context / wavelength - low) / (high - low)
            factors.append(1 / ((1 - smooth) / scaling["factor"] + smooth))
    return np.array(factors, dtype=np.float32)


class SafetensorsFile:
    """Writes the affine model, one tensor after the other, in the order of `tensors`."""

    def __init__(self, path, config):
        header, self.offset = {"__metadata__": {"format": "mlx"}}, 0
        for name, _, rows, columns in tensors(config):
            if rows is None:
                self._announce(header, f"{name}.weight", "BF16", [columns])
                continue
            self._announce(header, f"{name}.weight", "U32", [rows, columns * BITS // 32])
            for part in ("scales", "biases"):
                self._announce(header, f"{name}.{part}", "BF16", [rows, columns // GROUP_SIZE])
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        self.file = open(path, "wb")
        self.file.write(len(text).to_bytes(8, "little") + text)

    def _announce(self, header, name, dtype, shape):
        size = math.prod(shape) * {"U32": 4, "BF16": 2}[dtype]
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [self.offset, self.offset + size]}
        self.offset += size

    def write(self, *arrays):
        for array in arrays:
            self.file.write(np.ascontiguousarray(array).tobytes())

    def close(self):
        self.file.close()


def gguf_writer(path, config, name, tokens, merges):
    """A GGUF file whose header is written and whose tensors are yet to follow in the order of `tensors`."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name(name)
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(config["head_dim"])
    writer.add_value_length(config["head_dim"])
    writer.add_rope_dimension_count(config["head_dim"])
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_vocab_size(config["vocab_size"])
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    kinds = [gguf.TokenType.NORMAL] * (len(tokens) - 2) + [gguf.TokenType.CONTROL] * 2
    writer.add_token_types(kinds)
    writer.add_token_merges([" ".join(merge) for merge in merges])
    writer.add_bos_token_id(config["bos_token_id"])
    writer.add_eos_token_id(config["eos_token_id"])
    writer.add_tensor_info(
        "rope_freqs.weight", (config["head_dim"] // 2,), np.dtype(np.float32), 2 * config["head_dim"]
    )
    for _, name, rows, columns in tensors(config):
        shape, kind = ((columns,), np.float32) if rows is None else ((rows, columns), np.float16)
        writer.add_tensor_info(f"{name}.weight", shape, np.dtype(kind), math.prod(shape) * np.dtype(kind).itemsize)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    return writer


def in_gguf_order(matrix, name, config):
    """llama.cpp alternates the halves of each head of q and k."""
    heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}.get(name.split(".")[-1])
    if heads is None:
        return matrix
    stored = np.empty_like(matrix)
    stored[rotary_order(len(matrix), heads)] = matrix
    return stored


def write(shape, config, folder):
    folder.mkdir(parents=True, exist_ok=True)
    tokens, merges = vocabulary(config["vocab_size"])
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer(tokens, merges)) + "\n", encoding="utf-8")
    quantization = {"group_size": GROUP_SIZE, "bits": BITS, "mode": "affine"}
    text = json.dumps({**config, "quantization": quantization}, indent=2)
    (folder / "config.json").write_text(text + "\n", encoding="utf-8")

    affine_file = SafetensorsFile(folder / "model.safetensors", config)
    writer = gguf_writer(folder / "dense.gguf", config, f"random {shape}", tokens, merges)
    writer.write_tensor_data(rope_factors(config))
    for index, (_, name, rows, columns) in enumerate(tensors(config)):
        if rows is None:
            ones = np.ones(columns, dtype=np.float32)
            affine_file.write(bfloat16(ones))
            writer.write_tensor_data(ones)
            continue
        matrix = dense(index, rows, columns)
        affine_file.write(*quantize(matrix))
        writer.write_tensor_data(in_gguf_order(matrix, name, config))
    affine_file.close()
    writer.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shape", choices=SHAPES, required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--dense-only", action="store_true", help="no conversions of dense.gguf")
    arguments = parser.parse_args()
    write(arguments.shape, SHAPES[arguments.shape], arguments.output)
    if not arguments.dense_only:
        for kind in ("Q4_1", "Q4_0"):
            converted(arguments.output / "dense.gguf", arguments.output / f"{kind}.gguf", kind, pure=True)


if __name__ == "__main__":
    main()
