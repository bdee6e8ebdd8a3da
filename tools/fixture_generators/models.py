"""Tiny seeded Llama-family checkpoints in safetensors, and their goldens."""

from dataclasses import dataclass, field

import mlx.core as mx
import numpy as np

from . import tokenizer as tiny_tokenizer
from .files import rounded, widened, write_json, write_safetensors
from .references import HuggingFace, MlxLm, gaps, greedy

SEQUENCE_LENGTH = 32  # ids in a golden
STORED_POSITIONS = 12  # logits are kept for the last of them
PROMPT_LENGTH = 8  # the greedy prompt is the start of the sequence
GREEDY_TOKENS = 32
SMALLEST_GAP = 0.1  # a seed whose greedy path comes closer to a tie is refused


@dataclass(frozen=True)
class Spec:
    """One checkpoint. `config` overrides fields of config.json."""

    name: str
    seed: int
    dtype: str = "bfloat16"
    config: dict = field(default_factory=dict)
    shards: int = 1
    quantization: dict | None = None  # MLX config entry: default and per-module overrides
    scale_dtype: str = "float32"
    nested_rope: bool = False  # rope settings as transformers 5 writes them


def base_config():
    return {
        "architectures": ["LlamaForCausalLM"],
        "attention_bias": False,
        "attention_dropout": 0.0,
        "bos_token_id": tiny_tokenizer.IM_START,
        "eos_token_id": tiny_tokenizer.IM_END,
        "head_dim": 16,
        "hidden_act": "silu",
        "hidden_size": 64,
        "initializer_range": 0.02,
        "intermediate_size": 128,
        "max_position_embeddings": 512,
        "mlp_bias": False,
        "model_type": "llama",
        "num_attention_heads": 4,
        "num_hidden_layers": 2,
        "num_key_value_heads": 2,
        "rms_norm_eps": 1e-5,
        "rope_scaling": None,
        "rope_theta": 10000.0,
        "tie_word_embeddings": True,
        "use_cache": True,
        "vocab_size": tiny_tokenizer.VOCAB_SIZE,
    }


LLAMA3_SCALING = {
    "factor": 8.0,
    "high_freq_factor": 4.0,
    "low_freq_factor": 1.0,
    "original_max_position_embeddings": 64,
    "rope_type": "llama3",
}


def quantization(bits, group_size, **overrides):
    return {"group_size": group_size, "bits": bits, "mode": "affine", **overrides}


SPECS = [
    Spec("llama-tiny-tied", seed=9101, dtype="float32"),
    Spec("llama-tiny-untied", seed=15102, config={"tie_word_embeddings": False, "head_dim": 32}),
    Spec(
        "llama-tiny-biased",
        seed=19103,
        config={"attention_bias": True, "mlp_bias": True, "num_key_value_heads": 4},
    ),
    Spec("llama-tiny-rope3", seed=48104, config={"rope_scaling": LLAMA3_SCALING}),
    Spec("llama-tiny-rope-linear", seed=10105, config={"rope_scaling": {"type": "linear", "factor": 4.0}}),
    Spec(
        "mistral-tiny",
        seed=18106,
        dtype="float16",
        nested_rope=True,
        config={
            "architectures": ["MistralForCausalLM"],
            "model_type": "mistral",
            "rope_theta": 50000.0,
            "sliding_window": None,
            "tie_word_embeddings": False,
        },
    ),
    Spec("llama-tiny-sharded", seed=46107, shards=2, config={"tie_word_embeddings": False}),
    Spec(
        "llama-tiny-4bit",
        seed=7108,
        scale_dtype="float16",
        quantization=quantization(
            4,
            32,
            **{
                "model.layers.1.mlp.down_proj": {"group_size": 64, "bits": 8},
                "model.layers.0.self_attn.o_proj": False,
            },
        ),
    ),
    Spec(
        "llama-tiny-8bit",
        seed=35109,
        scale_dtype="bfloat16",
        config={"tie_word_embeddings": False},
        quantization=quantization(
            8, 64, **{"lm_head": {"group_size": 32, "bits": 6}, "model.layers.1.self_attn.q_proj": False}
        ),
    ),
    Spec("llama-tiny-3bit", seed=2110, quantization=quantization(3, 32)),
    Spec("llama-tiny-5bit", seed=45111, quantization=quantization(5, 64)),
    Spec("llama-tiny-6bit", seed=6112, quantization=quantization(6, 32)),
]


def full_config(spec):
    """config.json of a spec, rope settings still in the flat form."""
    return {**base_config(), **spec.config}


def random_weights(config, seed):
    """float32 weights whose attention is far from uniform and whose logits are far from ties."""
    rng = np.random.Generator(np.random.PCG64(seed))
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    queries = config["num_attention_heads"] * config["head_dim"]
    keys = config["num_key_value_heads"] * config["head_dim"]

    def matrix(rows, columns, gain):
        values = rng.standard_normal((rows, columns), dtype=np.float32)
        return values * np.float32(gain / np.sqrt(columns))

    def norm():
        return np.float32(1) + np.float32(0.2) * rng.standard_normal(hidden, dtype=np.float32)

    weights = {
        "model.embed_tokens.weight": matrix(config["vocab_size"], hidden, 3.0),
        "model.norm.weight": norm(),
    }
    if not config["tie_word_embeddings"]:
        weights["lm_head.weight"] = matrix(config["vocab_size"], hidden, 3.0)
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        weights[at + "input_layernorm.weight"] = norm()
        weights[at + "post_attention_layernorm.weight"] = norm()
        for name, rows, columns, gain, biased in (
            ("self_attn.q_proj", queries, hidden, 1.5, config["attention_bias"]),
            ("self_attn.k_proj", keys, hidden, 1.5, config["attention_bias"]),
            ("self_attn.v_proj", keys, hidden, 1.5, config["attention_bias"]),
            ("self_attn.o_proj", hidden, queries, 1.0, config["attention_bias"]),
            ("mlp.gate_proj", inner, hidden, 1.5, config["mlp_bias"]),
            ("mlp.up_proj", inner, hidden, 1.5, config["mlp_bias"]),
            ("mlp.down_proj", hidden, inner, 1.0, config["mlp_bias"]),
        ):
            weights[at + name + ".weight"] = matrix(rows, columns, gain)
            if biased:
                weights[at + name + ".bias"] = np.float32(0.3) * rng.standard_normal(rows, dtype=np.float32)
    return weights


def sequence(seed, count=SEQUENCE_LENGTH):
    """A fixed sequence of ordinary ids."""
    rng = np.random.Generator(np.random.PCG64([seed, 1]))
    return rng.integers(3, tiny_tokenizer.VOCAB_SIZE, count).astype(np.int32)


def quantize(spec, weights):
    """(stored tensors, dequantized float32 weights) in the MLX affine layout."""
    entry = spec.quantization
    stored, exact = {}, {}
    for name, value in weights.items():
        module = name.removesuffix(".weight")
        choice = entry.get(module, {"group_size": entry["group_size"], "bits": entry["bits"]})
        if value.ndim != 2 or choice is False:
            stored[name] = rounded(value, spec.dtype)
            exact[name] = widened(stored[name])
            continue
        codes, scales, biases = mx.quantize(mx.array(value), choice["group_size"], choice["bits"])
        scales = rounded(np.array(scales), spec.scale_dtype)
        biases = rounded(np.array(biases), spec.scale_dtype)
        stored[name] = np.array(codes)
        stored[module + ".scales"] = scales
        stored[module + ".biases"] = biases
        exact[name] = np.array(
            mx.dequantize(
                codes, mx.array(widened(scales)), mx.array(widened(biases)), choice["group_size"], choice["bits"]
            )
        )
    return stored, exact


def write_weights(directory, stored, shards):
    if shards == 1:
        write_safetensors(directory / "model.safetensors", stored, {"format": "pt"})
        return
    names = sorted(stored)
    size = -(-len(names) // shards)
    index = {}
    for shard in range(shards):
        part = names[shard * size : (shard + 1) * size]
        file = f"model-{shard + 1:05d}-of-{shards:05d}.safetensors"
        write_safetensors(directory / file, {n: stored[n] for n in part}, {"format": "pt"})
        index.update({n: file for n in part})
    total = sum(len(array.tobytes()) for array in stored.values())
    write_json(
        directory / "model.safetensors.index.json",
        {"metadata": {"total_size": total}, "weight_map": index},
    )


def write_config(directory, spec):
    config = full_config(spec)
    if spec.nested_rope:
        config["rope_parameters"] = {"rope_type": "default", "rope_theta": config.pop("rope_theta")}
        del config["rope_scaling"]
    config["dtype" if spec.nested_rope else "torch_dtype"] = spec.dtype
    if spec.quantization:
        config["quantization"] = spec.quantization
    write_json(directory / "config.json", dict(sorted(config.items())))
    write_json(
        directory / "generation_config.json",
        {
            "bos_token_id": tiny_tokenizer.IM_START,
            "eos_token_id": [tiny_tokenizer.IM_END, tiny_tokenizer.END_OF_TEXT],
            "do_sample": False,
            "max_new_tokens": GREEDY_TOKENS,
        },
    )


def golden(seed, hugging_face, mlx_lm=None):
    """The tensors of a golden file; raises if the greedy path is unfit for a test."""
    ids = sequence(seed)
    prompt = ids[:PROMPT_LENGTH]
    tokens, rows = greedy(hugging_face, prompt.tolist(), GREEDY_TOKENS)
    smallest = float(gaps(rows).min())
    if smallest < SMALLEST_GAP or min(tokens) <= tiny_tokenizer.IM_END or len(set(tokens)) < 12:
        raise ValueError(f"seed {seed}: gap {smallest:.4f}, {len(set(tokens))} different ids of {tokens}")
    tensors = {
        "input_ids": ids,
        "positions": np.arange(SEQUENCE_LENGTH - STORED_POSITIONS, SEQUENCE_LENGTH, dtype=np.int32),
        "logits_hf": hugging_face.logits(ids.tolist())[-STORED_POSITIONS:],
        "hidden_hf": hugging_face.hidden(ids.tolist())[-STORED_POSITIONS:],
        "prompt_ids": prompt,
        "greedy_hf": np.array(tokens, dtype=np.int32),
        "greedy_gap_hf": gaps(rows),
    }
    if mlx_lm is not None:
        mlx_tokens, _ = greedy(mlx_lm, prompt.tolist(), GREEDY_TOKENS)
        tensors["logits_mlx"] = mlx_lm.logits(ids.tolist())[-STORED_POSITIONS:]
        tensors["greedy_mlx"] = np.array(mlx_tokens, dtype=np.int32)
        difference = float(np.abs(tensors["logits_mlx"] - tensors["logits_hf"]).max())
        if difference > 2e-4 or mlx_tokens != tokens:
            raise ValueError(f"seed {seed}: the references differ by {difference}: {tokens} {mlx_tokens}")
    return tensors


def make(spec, root, tokenizer):
    """Writes one checkpoint directory with its golden."""
    directory = root / spec.name
    directory.mkdir(parents=True, exist_ok=True)
    config = full_config(spec)
    weights = random_weights(config, spec.seed)
    if spec.quantization:
        stored, exact = quantize(spec, weights)
    else:
        stored = {name: rounded(value, spec.dtype) for name, value in weights.items()}
        exact = None
    write_weights(directory, stored, spec.shards)
    write_config(directory, spec)
    tiny_tokenizer.write_tokenizer(directory, tokenizer)

    # mlx-lm's Llama does not read rope_parameters, so it is told the flat form.
    overrides = {"rope_theta": config["rope_theta"], "rope_scaling": config["rope_scaling"]}
    if exact is None:
        hugging_face = HuggingFace.from_directory(directory)
    else:
        hugging_face = HuggingFace.from_weights(config, exact)
    tensors = golden(spec.seed, hugging_face, MlxLm(directory, overrides))
    write_safetensors(directory / "golden.safetensors", tensors)
    return {
        "seed": spec.seed,
        "difference": float(np.abs(tensors["logits_mlx"] - tensors["logits_hf"]).max()),
        "gap": float(tensors["greedy_gap_hf"].min()),
    }
