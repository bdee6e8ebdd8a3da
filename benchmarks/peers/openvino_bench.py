"""Prefill and decode speed of OpenVINO GenAI, as the two JSON lines that `tessera bench --json` prints.

Runs inside the environment that setup.sh makes. The pipeline remembers prefixes of earlier prompts, so
every run has ids of its own; the figures are the pipeline's own: time to the first token, and time per
further token. Decoding starts from a context of one token, as in llama-bench.
"""

import argparse
import json
import random
import statistics
from pathlib import Path

import numpy
import openvino
import openvino_genai


def vocabulary_size(pipeline):
    return len(pipeline.get_tokenizer().get_vocab())


def random_ids(generator, count, vocabulary):
    ids = [generator.randrange(vocabulary) for _ in range(count)]
    return openvino.Tensor(numpy.array([ids], dtype=numpy.int64))


def generate(pipeline, ids, count):
    """Metrics of `count` greedy tokens after `ids`, none of them ending the run."""
    config = openvino_genai.GenerationConfig()
    config.max_new_tokens = count
    config.min_new_tokens = count
    config.ignore_eos = True
    config.do_sample = False
    return pipeline.generate(ids, config).perf_metrics


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, required=True, help="a GGUF file")
    parser.add_argument("--prompt-tokens", type=int, default=512)
    parser.add_argument("--generation-tokens", type=int, default=128)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=3)
    arguments = parser.parse_args()

    properties = {"INFERENCE_NUM_THREADS": arguments.threads, "PERFORMANCE_HINT": "LATENCY"}
    pipeline = openvino_genai.LLMPipeline(str(arguments.model), "CPU", **properties)
    generator = random.Random(20240607)
    vocabulary = vocabulary_size(pipeline)
    generate(pipeline, random_ids(generator, arguments.prompt_tokens, vocabulary), 2)  # warm-up

    prefill, decode = [], []
    for _ in range(arguments.repeat):
        metrics = generate(pipeline, random_ids(generator, arguments.prompt_tokens, vocabulary), 1)
        prefill.append(1000 * arguments.prompt_tokens / metrics.get_ttft().mean)
        metrics = generate(pipeline, random_ids(generator, 1, vocabulary), arguments.generation_tokens + 1)
        decode.append(1000 / metrics.get_tpot().mean)
    report("prefill", arguments.prompt_tokens, statistics.median(prefill))
    report("decode", arguments.generation_tokens, statistics.median(decode))


def report(case, tokens, speed):
    print(json.dumps({"case": case, "tokens": tokens, "tokens_per_second": speed}), flush=True)


if __name__ == "__main__":
    main()
