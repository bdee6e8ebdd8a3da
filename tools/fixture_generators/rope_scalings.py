"""Rope scalings by transformers itself: frequency tables of configurations as published checkpoints write
them, and the logits of a tiny model under some."""

import json

import numpy as np
import torch
from safetensors.numpy import load_file
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb

from .files import write_safetensors

BASE = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": 100,
    "rms_norm_eps": 1e-6,
    "head_dim": 32,
    "max_position_embeddings": 512,
    "rope_theta": 10000.0,
}
SHORT = [1.0, 1.02, 1.05, 1.1, 1.3, 1.55, 1.8, 2.0]
LONG = [1.0, 1.15, 1.9, 4.0, 8.5, 17.0, 31.0, 45.0]
LONGROPE = {"type": "longrope", "short_factor": SHORT, "long_factor": LONG}
PHI = {"head_dim": 16, "max_position_embeddings": 4096, "original_max_position_embeddings": 256}
DEEPSEEK = {"type": "yarn", "factor": 40, "original_max_position_embeddings": 4096, "beta_fast": 32, "beta_slow": 1}

# name -> (what differs from BASE, positions that a sequence may hold)
CASES = {
    "linear_partial": ({"rope_scaling": {"type": "linear", "factor": 4.0}, "partial_rotary_factor": 0.5}, 512),
    "dynamic_within": ({"rope_scaling": {"type": "dynamic", "factor": 2.0}}, 512),
    "dynamic_beyond": ({"rope_scaling": {"rope_type": "dynamic", "factor": 2.0}}, 1500),
    "llama3": (
        {
            "rope_theta": 500000.0,
            "max_position_embeddings": 131072,
            "rope_scaling": {
                "factor": 32.0,
                "high_freq_factor": 4.0,
                "low_freq_factor": 1.0,
                "original_max_position_embeddings": 8192,
                "rope_type": "llama3",
            },
        },
        131072,
    ),
    "yarn": (
        {
            "head_dim": 64,
            "rope_theta": 1000000.0,
            "max_position_embeddings": 131072,
            "rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768},
        },
        131072,
    ),
    "yarn_without_original": ({"rope_scaling": {"rope_type": "yarn", "factor": 8.0}}, 512),
    "yarn_mscale": (
        {
            "head_dim": 64,
            "max_position_embeddings": 163840,
            "rope_scaling": {**DEEPSEEK, "mscale": 1.0, "mscale_all_dim": 0.707},
        },
        163840,
    ),
    "yarn_equal_mscales": (
        {
            "head_dim": 64,
            "max_position_embeddings": 163840,
            "rope_scaling": {**DEEPSEEK, "mscale": 1.0, "mscale_all_dim": 1.0},
        },
        163840,
    ),
    "yarn_not_truncated": (
        {
            "head_dim": 64,
            "max_position_embeddings": 131072,
            "rope_parameters": {
                "rope_theta": 150000,
                "rope_type": "yarn",
                "factor": 32.0,
                "beta_fast": 32.0,
                "beta_slow": 1.0,
                "truncate": False,
                "original_max_position_embeddings": 4096,
            },
        },
        131072,
    ),
    "yarn_attention_factor": (
        {
            "rope_parameters": {
                "rope_theta": 10000.0,
                "rope_type": "yarn",
                "factor": 2.0,
                "attention_factor": 1.25,
                "partial_rotary_factor": 0.5,
                "original_max_position_embeddings": 256,
            }
        },
        512,
    ),
    "longrope_short": ({**PHI, "rope_scaling": LONGROPE}, 256),
    "longrope_long": ({**PHI, "rope_scaling": LONGROPE}, 4096),
    "longrope_partial": (
        {
            **PHI,
            "partial_rotary_factor": 0.75,
            "rope_scaling": {
                "type": "longrope",
                "short_factor": SHORT[:6],
                "long_factor": LONG[:6],
                "factor": 8.0,
                "attention_factor": 1.19,
            },
        },
        4096,
    ),
    "proportional": (
        {"rope_parameters": {"rope_type": "proportional", "rope_theta": 1000000.0, "partial_rotary_factor": 0.25}},
        512,
    ),
    "proportional_factor": (
        {"rope_parameters": {"rope_type": "proportional", "rope_theta": 10000.0, "factor": 8.0}},
        512,
    ),
}


# Of the model llama-tiny-tied: other settings of its config.json. Sequences are longer than 16 ids, so that
# transformers takes the long factors too.
MODEL_CASES = {
    "yarn": {"rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}},
    "longrope": {"original_max_position_embeddings": 16, "rope_scaling": LONGROPE},
    "longrope_small_scale": {
        "original_max_position_embeddings": 16,
        "rope_scaling": {**LONGROPE, "attention_factor": 0.8},
    },
}


def _config(changes):
    config = LlamaConfig.from_dict({**BASE, **changes})
    config.standardize_rope_params()
    return config


def make(root):
    tensors = {}
    for name, (changes, length) in CASES.items():
        config = _config(changes)
        kind = config.rope_parameters["rope_type"]
        frequencies, scale = ROPE_INIT_FUNCTIONS[kind](config, "cpu", seq_len=length)
        tensors[f"{name}.frequencies"] = frequencies.numpy()
        tensors[f"{name}.scale"] = np.array([scale], dtype=np.float32)
    # The whole rotation of heads x, where transformers' Llama computes it.
    x = np.random.Generator(np.random.PCG64(402)).standard_normal((1, 2, 5, 64), dtype=np.float32)
    for name, dims, first in (("yarn_mscale", 64, 700), ("longrope_long", 16, 300)):
        config = _config(CASES[name][0])
        heads = torch.from_numpy(x[..., :dims])
        positions = torch.arange(first, first + 5)[None]
        cosines, sines = LlamaRotaryEmbedding(config)(heads, positions)
        tensors[f"{name}.x"] = np.ascontiguousarray(heads.numpy())
        tensors[f"{name}.first"] = np.array([first], dtype=np.int32)
        tensors[f"{name}.y"] = apply_rotary_pos_emb(heads, heads, cosines, sines)[0].numpy()
    directory = root / "operations"
    write_safetensors(directory / "rope_scalings.safetensors", {k: np.ascontiguousarray(v) for k, v in tensors.items()})
    cases = [
        {"name": name, "length": length, "config": {**BASE, **changes}} for name, (changes, length) in CASES.items()
    ]
    (directory / "rope_scalings.json").write_text(json.dumps(cases, indent=1) + "\n", encoding="utf-8")
    _models(root)
    return {"cases": len(cases)}


def _models(root):
    model = root / "llama-tiny-tied"
    weights = {name: torch.from_numpy(value) for name, value in load_file(model / "model.safetensors").items()}
    golden = load_file(model / "golden.safetensors")
    ids = torch.from_numpy(golden["input_ids"]).long()[None]
    settings = json.loads((model / "config.json").read_text(encoding="utf-8"))
    logits = {}
    for name, changes in MODEL_CASES.items():
        config = LlamaConfig.from_dict({**settings, **changes}, attn_implementation="eager")
        reference = LlamaForCausalLM(config).float().eval()
        missing, unexpected = reference.load_state_dict(weights, strict=False)
        if set(missing) - {"lm_head.weight"} or unexpected:
            raise ValueError(f"{model}: {missing} {unexpected}")
        reference.tie_weights()
        with torch.no_grad():
            logits[name] = reference(ids).logits[0].numpy()[golden["positions"]]
    directory = root / "rope-models"
    directory.mkdir(exist_ok=True)
    write_safetensors(directory / "golden.safetensors", {k: np.ascontiguousarray(v) for k, v in logits.items()})
    (directory / "cases.json").write_text(json.dumps(MODEL_CASES, indent=1) + "\n", encoding="utf-8")
