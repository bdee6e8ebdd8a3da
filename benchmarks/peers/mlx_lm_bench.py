"""Prefill and decode speed of mlx-lm, as the two JSON lines that `tessera bench --json` prints.

Runs inside the environment that setup.sh makes. Activations are float32: mlx-cpu sums bfloat16 and
float16 products in the narrow type, which is neither fast nor comparable.
"""

import argparse
import json
import time
from pathlib import Path

import mlx.core as mx
from mlx_lm.models.cache import make_prompt_cache
from mlx_lm.utils import load_model

PREFILL_CHUNK = 512


def prefill(model, cache, ids):
    """Feeds ids in chunks; returns the last logits, evaluated."""
    for start in range(0, len(ids), PREFILL_CHUNK):
        logits = model(mx.array([ids[start : start + PREFILL_CHUNK]]), cache=cache)[0, -1]
        mx.eval(logits)
    return logits


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, required=True, help="a directory in MLX layout")
    parser.add_argument("--prompt-tokens", type=int, default=512)
    parser.add_argument("--generation-tokens", type=int, default=128)
    arguments = parser.parse_args()

    model, config = load_model(arguments.model)
    model.set_dtype(mx.float32)
    ids = [(7919 * i + 13) % config["vocab_size"] for i in range(arguments.prompt_tokens)]
    prefill(model, make_prompt_cache(model), ids[:2])  # warm-up

    cache = make_prompt_cache(model)
    start = time.perf_counter()
    prefill(model, cache, ids)
    report("prefill", arguments.prompt_tokens, time.perf_counter() - start)

    # As in llama-bench, generation starts from an empty context.
    cache = make_prompt_cache(model)
    token = ids[0]
    start = time.perf_counter()
    for _ in range(arguments.generation_tokens):
        token = mx.argmax(model(mx.array([[token]]), cache=cache)[0, -1]).item()
    report("decode", arguments.generation_tokens, time.perf_counter() - start)


def report(case, tokens, seconds):
    print(json.dumps({"case": case, "tokens": tokens, "tokens_per_second": tokens / seconds}), flush=True)


if __name__ == "__main__":
    main()
