#!/usr/bin/env python3
"""What quantized arithmetic costs in quality: Tessera and llama.cpp on one file, each against its own float32.

    benchmarks/peers/setup.sh llama.cpp
    benchmarks/peers/kl.py MODEL.gguf --tessera build/release/bin/tessera

llama.cpp's reference is the same weights written out as F32 (llama-quantize, kept in .peers/models);
Tessera's is the file itself under --dtype float32. Both cut the text into the same windows and score the
second half of each, so the perplexities of the two references must agree: that is checked. llama.cpp
stores its reference's log-probabilities in 16 bits and leaves out those below e^-16; the default model's
F32 file against itself has a mean KL of 0.000000 that way, and up to 0.00006 at a single token.
"""

import argparse
import contextlib
import hashlib
import json
import math
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import participants
from participants import PEERS, ROOT, RunFailed

FIGURES = ("mean", "median", "q99", "max", "same_top")
PERPLEXITY_TOLERANCE = 0.005  # two float32 engines: measured 3e-5, a wrong window or BOS is percents
ATTEMPTS = 4

# "Mean    KLD:   0.002841 ±   0.000040", behind a time stamp or not.
PEER_PATTERNS = {
    "mean": r"Mean\s+KLD:\s*(\S+)",
    "median": r"Median\s+KLD:\s*(\S+)",
    "q99": r"99\.0%\s+KLD:\s*(\S+)",
    "max": r"Maximum\s+KLD:\s*(\S+)",
    "same_top": r"Same top p:\s*(\S+)",  # in percent
}


class IncompleteOutput(RunFailed):
    """A figure is missing in the output of a program that ended well."""


def find_number(pattern, text, what):
    match = re.search(pattern, text)
    if not match:
        raise IncompleteOutput(f"llama.cpp: no {what} in its output\n{text[-2000:]}")
    return float(match.group(1))


def parse_llama_perplexity(text):
    """The perplexity of a run that wrote its logits."""
    return find_number(r"Final estimate: PPL = (\S+)", text, "perplexity")


def parse_llama_kl(text):
    """The figures of a run against written logits; same_top as a fraction."""
    figures = {name: find_number(pattern, text, name) for name, pattern in PEER_PATTERNS.items()}
    figures["same_top"] /= 100
    return figures


def parse_tessera_kl(text):
    """Output of `tessera kl --json`: the figures, and the reference's perplexity beside them."""
    report = json.loads(text)
    kl = report["kl"]
    # JSON has no infinity; Tessera prints null.
    figures = {name: math.inf if kl[name] is None else kl[name] for name in ("mean", "median", "q99", "max")}
    return {**figures, "same_top": report["same_top"]}, report["a"]["perplexity"], report["windows"]


def run(command, timeout=3600):
    """Standard output and standard error of a program, joined."""
    command = [str(part) for part in command]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired as error:
        raise RunFailed(f"{command[0]}: no result after {timeout} s") from error
    if done.returncode != 0:
        raise RunFailed(f"{command[0]}: exit status {done.returncode}\n{done.stderr[-2000:]}")
    return done.stdout + done.stderr


def run_llama(command, parse):
    """What `parse` finds in a program's output. llama.cpp may end before its logging thread has written the
    last lines (seen with tiny models), so a run that ended well but lacks them is repeated."""
    for _ in range(ATTEMPTS - 1):
        with contextlib.suppress(IncompleteOutput):
            return parse(run(command))
    return parse(run(command))


def installed(name):
    program = PEERS / "bin" / name
    if not program.exists():
        raise RunFailed(f"{program} is missing; run benchmarks/peers/setup.sh llama.cpp")
    return program


def float32_model(model):
    """The same weights as an F32 file, written once for every file, size and time of change."""
    status = model.stat()
    identity = f"{model.resolve()} {status.st_size} {status.st_mtime_ns}"
    key = hashlib.sha256(identity.encode()).hexdigest()[:8]
    path = PEERS / "models" / f"{model.stem}-{key}-F32.gguf"
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".part")
    run([installed("llama-quantize"), "--allow-requantize", model, unfinished, "F32"])
    unfinished.rename(path)
    return path


def measure_llama(options):
    """(figures, perplexity of the F32 file)."""
    program = installed("llama-perplexity")
    shared = ["-f", options.text, "-c", options.context, "-t", options.threads, "-tb", options.threads]
    with tempfile.TemporaryDirectory(dir=PEERS) as folder:
        logits = Path(folder) / "logits"  # 2 bytes for every token of the vocabulary at every position
        base = [program, "-m", float32_model(options.model), "--kl-divergence-base", logits]
        perplexity = run_llama([*base, *shared, "--chunks", options.windows], parse_llama_perplexity)
        quantized = [program, "-m", options.model, "--kl-divergence", "--kl-divergence-base", logits]
        return run_llama([*quantized, *shared], parse_llama_kl), perplexity


def tiers(program):
    """{name: flags} of the arithmetics that this build of Tessera has."""
    result = {"default": ["--dtype-b", "auto"]}
    if "--precision-b" in run([program, "kl", "--help"]):
        result["int8"] = ["--precision-b", "int8"]
    return result


def measure_tessera(options, flags):
    """(figures, perplexity of the float32 side, windows)."""
    command = [options.tessera, "kl", options.model, "--dtype", "float32", *flags, "--data-path", options.text]
    command += ["--context", options.context, "--max-tokens", options.windows * options.context]
    command += ["--threads", options.threads, "--json"]
    return parse_tessera_kl(run(command))


def compare_perplexities(ours, theirs):
    """How far the two float32 references are apart, relative to llama.cpp's. Throws when that is too far."""
    difference = ours / theirs - 1
    if not abs(difference) <= PERPLEXITY_TOLERANCE:
        raise RunFailed(
            f"float32 perplexities disagree: tessera {ours:.4f}, llama.cpp {theirs:.4f} ({100 * difference:+.2f} %); "
            "the figures below them would not compare"
        )
    return difference


def measure(options, progress=lambda text: None):
    progress("llama.cpp")
    peer, peer_perplexity = measure_llama(options)
    columns = {}
    for name, flags in tiers(options.tessera).items():
        progress(f"tessera {name}")
        columns[f"tessera {name}"], perplexity, windows = measure_tessera(options, flags)
        if windows != options.windows:
            raise RunFailed(f"{options.text} has only {windows} windows of {options.context} tokens")
    columns["llama.cpp"] = peer
    return {
        "model": options.model.name,
        "text": options.text.name,
        "context": options.context,
        "windows": options.windows,
        "perplexity": {"tessera": perplexity, "llama.cpp": peer_perplexity},
        "perplexity_difference": compare_perplexities(perplexity, peer_perplexity),
        "columns": columns,
    }


def cell(figure, value):
    return f"{100 * value:.2f} %" if figure == "same_top" else f"{value:.4g}"


def markdown(report):
    """The report as a Markdown table."""
    columns, perplexity = report["columns"], report["perplexity"]
    lines = [
        f"`{report['model']}`, {report['windows']} windows of {report['context']} tokens of {report['text']}; "
        f"float32 perplexity {perplexity['tessera']:.4f}, llama.cpp's {perplexity['llama.cpp']:.4f} "
        f"({100 * report['perplexity_difference']:+.4f} %).",
        "",
        "| KL against its own float32 | " + " | ".join(columns) + " |",
        "|---|" + "---:|" * len(columns),
    ]
    for figure in FIGURES:
        cells = " | ".join(cell(figure, column[figure]) for column in columns.values())
        lines.append(f"| {figure.replace('_', ' ')} | {cells} |")
    return "\n".join(lines)


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path, help="a GGUF file")
    parser.add_argument("--text", type=Path, default=ROOT / "fixtures" / "text.txt")
    parser.add_argument("--tessera", type=Path, default=ROOT / "build" / "release" / "bin" / "tessera")
    parser.add_argument("--windows", type=int, default=16, help="llama.cpp writes 25 MB of logits for each")
    parser.add_argument("--context", type=int, default=512, help="tokens of a window")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of the table")
    parsed = parser.parse_args(arguments)
    for name, least in (("windows", 2), ("context", 16), ("threads", 1)):  # llama.cpp wants two windows
        if getattr(parsed, name) < least:
            parser.error(f"--{name} must be at least {least}")
    for path in (parsed.model, parsed.text):
        if not path.is_file():
            parser.error(f"no such file: {path}")
    return parsed


def main(arguments=None):
    options = parse_arguments(arguments)
    try:
        report = measure(options, lambda text: print(text, file=sys.stderr, flush=True))
    except (RunFailed, OSError, ValueError, KeyError) as error:
        print(f"kl: {error}", file=sys.stderr)
        return 1
    report["versions"] = {
        "tessera": participants.first_line([options.tessera, "--version"]),
        "llama.cpp": (PEERS / "llama.cpp" / "version").read_text(encoding="utf-8").strip(),
    }
    print(json.dumps(report, indent=2) if options.json else markdown(report))
    return 0


if __name__ == "__main__":
    sys.exit(main())
