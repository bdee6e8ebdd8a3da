"""Converts a Llama or Qwen2 GGUF file into a directory that mlx-lm and Tessera load.

A type whose blocks are an affine map of unsigned codes keeps its codes: the value of a code q is
scale * q + bias, exactly, so nothing is quantized twice.

    type    bits  group  scale     bias
    Q4_0    4     32     d         -8 d
    Q4_1    4     32     d         m
    Q5_0    5     32     d         -16 d
    Q5_1    5     32     d         m
    Q8_0    8     32     d         -128 d
    Q4_K    4     32     d * sc    -dmin * mn     (float32: products of a float16 and six bits)
    Q5_K    5     32     d * sc    -dmin * mn     (float32)

Q2_K, Q3_K and Q6_K scale groups of 16, which MLX has no layout for; they and the float types are
stored dense. Needs numpy, gguf and tokenizers.
"""

import argparse
import json
from pathlib import Path

import gguf
import numpy as np
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers

GROUP_SIZE = 32

_MODULES = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}

_SAFETENSORS_NAMES = {"float32": "F32", "float16": "F16", "uint32": "U32", "bfloat16": "BF16"}

# Pre-tokenizers by tokenizer.ggml.pre: expressions applied before the byte-level step.
# None stands for the GPT-2 expression, which the byte-level step applies itself.
_QWEN2 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_PRE_TOKENIZERS = {"gpt-2": None, "smollm": None, "qwen2": _QWEN2}


def values(reader):
    """Metadata as plain Python values."""
    return {name: field.contents() for name, field in reader.fields.items()}


def affine(data, name):
    """(codes uint8 [rows, columns], scales, biases, bits) of a quantized matrix, or None."""
    rows = data.shape[0]
    size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[name]][1]
    blocks = np.ascontiguousarray(data).reshape(-1, size)

    def half(at):
        return np.ascontiguousarray(blocks[:, at : at + 2]).view(np.float16)

    def nibbles(at):
        """Sixteen bytes: the low halves are elements 0-15, the high halves 16-31."""
        packed = blocks[:, at : at + 16]
        return np.concatenate([packed & 15, packed >> 4], axis=1)

    def fifth_bits(at):
        bits = np.unpackbits(np.ascontiguousarray(blocks[:, at : at + 4]), axis=1, bitorder="little")
        return bits << 4

    def negative(scale, factor):
        """Exact: a power of two times a float16, widened where it would overflow."""
        bias = scale.astype(np.float32) * np.float32(-factor)
        narrow = bias.astype(np.float16)
        return narrow if np.array_equal(narrow.astype(np.float32), bias) else bias

    if name == "Q4_0":
        codes, scales, bits = nibbles(2), half(0), 4
        biases = negative(scales, 8)
    elif name == "Q4_1":
        codes, scales, biases, bits = nibbles(4), half(0), half(2), 4
    elif name == "Q5_0":
        codes, scales, bits = nibbles(6) | fifth_bits(2), half(0), 5
        biases = negative(scales, 16)
    elif name == "Q5_1":
        codes, scales, biases, bits = nibbles(8) | fifth_bits(4), half(0), half(2), 5
    elif name == "Q8_0":
        codes, scales, bits = blocks[:, 2:] ^ 0x80, half(0), 8
        biases = negative(scales, 128)
    elif name in ("Q4_K", "Q5_K"):
        codes, scales, biases, bits = _k_affine(blocks, half, name)
    else:
        return None
    return codes.reshape(rows, -1), scales.reshape(rows, -1), biases.reshape(rows, -1), bits


def _k_affine(blocks, half, name):
    """Eight groups of 32 to a block: six-bit scales and minimums in twelve bytes, then codes."""
    packed = blocks[:, 4:16]
    low = packed[:, 8:] & 15
    high = packed[:, 8:] >> 4
    scale = np.concatenate([packed[:, 0:4] & 63, low | (packed[:, 0:4] >> 6 << 4)], axis=1)
    minimum = np.concatenate([packed[:, 4:8] & 63, high | (packed[:, 4:8] >> 6 << 4)], axis=1)
    scales = half(0).astype(np.float32) * scale.astype(np.float32)
    biases = half(2).astype(np.float32) * -minimum.astype(np.float32)
    start = 16 if name == "Q4_K" else 48
    pairs = blocks[:, start : start + 128].reshape(-1, 4, 1, 32)  # two groups share 32 bytes
    codes = np.concatenate([pairs & 15, pairs >> 4], axis=2).reshape(-1, 8, 32)
    if name == "Q4_K":
        return codes, scales, biases, 4
    fifth = blocks[:, 16:48].reshape(-1, 1, 32) >> np.arange(8, dtype=np.uint8).reshape(1, 8, 1) & 1
    return codes | fifth << 4, scales, biases, 5


def pack(codes, bits):
    """MLX's layout: the codes of a row as one little-endian stream of bits in uint32 words."""
    rows = codes.shape[0]
    stream = np.unpackbits(codes.reshape(rows, -1, 1), axis=2, count=bits, bitorder="little")
    return np.packbits(stream.reshape(rows, -1), axis=1, bitorder="little").view(np.uint32)


def rotary_order(count, heads):
    """Stored row of each row in Hugging Face order: GGUF's Llama alternates the two halves of a head."""
    return np.arange(count).reshape(heads, -1, 2).transpose(0, 2, 1).reshape(-1)


def module_name(name):
    """blk.3.attn_q -> model.layers.3.self_attn.q_proj"""
    if name.startswith("blk."):
        _, layer, rest = name.split(".")
        return f"model.layers.{layer}.{_MODULES[rest]}"
    return _MODULES[name]


def config(meta, quantization, tied):
    architecture = meta["general.architecture"]

    def get(key, default=None):
        return meta.get(f"{architecture}.{key}", default)

    heads = get("attention.head_count")
    result = {
        "architectures": [{"llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM"}[architecture]],
        "bos_token_id": meta.get("tokenizer.ggml.bos_token_id"),
        "eos_token_id": meta["tokenizer.ggml.eos_token_id"],
        "head_dim": get("attention.key_length", get("embedding_length") // heads),
        "hidden_act": "silu",
        "hidden_size": get("embedding_length"),
        "intermediate_size": get("feed_forward_length"),
        "max_position_embeddings": get("context_length"),
        "model_type": architecture,
        "num_attention_heads": heads,
        "num_hidden_layers": get("block_count"),
        "num_key_value_heads": get("attention.head_count_kv", heads),
        "rms_norm_eps": float(str(np.float32(get("attention.layer_norm_rms_epsilon")))),
        "rope_scaling": None,
        "rope_theta": get("rope.freq_base", 10000.0),
        "tie_word_embeddings": tied,
        "torch_dtype": "float32",
        "vocab_size": len(meta["tokenizer.ggml.tokens"]),
    }
    if get("rope.scaling.type") == "linear":
        result["rope_scaling"] = {"type": "linear", "factor": get("rope.scaling.factor")}
    elif get("rope.scaling.type") not in (None, "none"):
        raise ValueError(f"rope scaling {get('rope.scaling.type')!r} is not converted")
    if quantization:
        result["quantization"] = quantization
    return result


def tokenizer(meta):
    """A byte-level BPE tokenizer from tokenizer.ggml.*"""
    if meta["tokenizer.ggml.model"] != "gpt2":
        raise ValueError(f"tokenizer model {meta['tokenizer.ggml.model']!r} is not converted")
    pre = meta.get("tokenizer.ggml.pre", "gpt-2")
    if pre not in _PRE_TOKENIZERS:
        raise ValueError(f"pre-tokenizer {pre!r} is not converted")
    tokens = meta["tokenizer.ggml.tokens"]
    merges = [tuple(merge.split(" ")) for merge in meta["tokenizer.ggml.merges"]]
    result = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(tokens)}, merges=merges))
    expression = _PRE_TOKENIZERS[pre]
    steps = [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=expression is None)]
    if pre == "smollm":
        steps.insert(0, pre_tokenizers.Digits(individual_digits=True))
    elif expression is not None:
        steps.insert(0, pre_tokenizers.Split(Regex(expression), behavior="isolated"))
    result.pre_tokenizer = pre_tokenizers.Sequence(steps)
    result.decoder = decoders.ByteLevel()
    special = [gguf.TokenType.CONTROL, gguf.TokenType.UNKNOWN]
    kinds = meta["tokenizer.ggml.token_type"]
    result.add_special_tokens(
        [AddedToken(t, special=True, normalized=False) for t, kind in zip(tokens, kinds) if kind in special]
    )
    return result


def tokenizer_config(meta):
    tokens = meta["tokenizer.ggml.tokens"]
    result = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False}
    for field, key in (("bos_token", "bos"), ("eos_token", "eos"), ("unk_token", "unknown"), ("pad_token", "padding")):
        index = meta.get(f"tokenizer.ggml.{key}_token_id")
        if index is not None:
            result[field] = tokens[index]
    if "tokenizer.chat_template" in meta:
        result["chat_template"] = meta["tokenizer.chat_template"]
    return result


def read(path, dense=False):
    """(config, tensors, metadata) of a file; `dense` dequantizes everything to float32."""
    reader = gguf.GGUFReader(path)
    meta = values(reader)
    architecture = meta["general.architecture"]
    if architecture not in ("llama", "qwen2"):
        raise ValueError(f"architecture {architecture!r} is not converted")
    heads = {
        "attn_q": meta[f"{architecture}.attention.head_count"],
        "attn_k": meta[f"{architecture}.attention.head_count_kv"],
    }
    default = {"group_size": GROUP_SIZE, "bits": 4, "mode": "affine"}
    quantization = dict(default)
    tensors = {}
    for tensor in reader.tensors:
        if tensor.name == "rope_freqs.weight":
            raise ValueError("rope_freqs.weight (llama3 rope scaling) is not converted")
        stem, _, suffix = tensor.name.rpartition(".")
        module, part = module_name(stem), stem.split(".")[-1]
        data, kind = tensor.data, gguf.GGMLQuantizationType(tensor.tensor_type)
        if architecture == "llama" and part in heads:
            data = data[rotary_order(len(data), heads[part])]
        parts = affine(data, kind.name) if data.ndim == 2 and not dense else None
        if parts is None:
            full = np.array(gguf.dequantize(data, kind), dtype=np.float32)
            tensors[f"{module}.{suffix}"] = full.reshape([int(n) for n in reversed(tensor.shape)])
            if data.ndim == 2:
                quantization[module] = False
            continue
        codes, scales, biases, bits = parts
        tensors[f"{module}.weight"] = pack(codes, bits)
        tensors[f"{module}.scales"] = scales
        tensors[f"{module}.biases"] = biases
        if bits != default["bits"]:
            quantization[module] = {"group_size": GROUP_SIZE, "bits": bits}
    quantized = any(name.endswith(".scales") for name in tensors)
    tied = not any(name.startswith("lm_head.") for name in tensors)
    parsed = config(meta, quantization if quantized else None, tied)
    if architecture == "llama":
        parsed["attention_bias"] = any(name.endswith("self_attn.o_proj.bias") for name in tensors)
        parsed["mlp_bias"] = any(name.endswith("mlp.down_proj.bias") for name in tensors)
    return parsed, tensors, meta


def write_safetensors(path, tensors):
    header, offset = {"__metadata__": {"format": "mlx"}}, 0
    for name, array in sorted(tensors.items()):
        header[name] = {
            "dtype": _SAFETENSORS_NAMES[str(array.dtype)],
            "shape": list(array.shape),
            "data_offsets": [offset, offset + array.nbytes],
        }
        offset += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for _, array in sorted(tensors.items()):
            file.write(np.ascontiguousarray(array).tobytes())


def convert(path, directory):
    parsed, tensors, meta = read(path)
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    write_safetensors(directory / "model.safetensors", tensors)
    (directory / "config.json").write_text(json.dumps(parsed, indent=2) + "\n")
    (directory / "tokenizer.json").write_text(tokenizer(meta).to_str() + "\n", encoding="utf-8")
    (directory / "tokenizer_config.json").write_text(json.dumps(tokenizer_config(meta), indent=2) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("gguf", type=Path, help="the file to convert")
    parser.add_argument("directory", type=Path, help="where to write config.json, model.safetensors and the tokenizer")
    arguments = parser.parse_args()
    convert(arguments.gguf, arguments.directory)


if __name__ == "__main__":
    main()
