#!/usr/bin/env python3
"""Tessera against its peers on one machine: interleaved rounds, ratios, and the bandwidth beside them.

    benchmarks/peers/setup.sh
    benchmarks/peers/compare.py --model MODEL.gguf --tessera build/release/bin/tessera
    benchmarks/peers/compare.py --table [--model MODEL.gguf | --shape llama-3.2-1b] [--json FILE]

The first form compares Tessera with single peers on one file. `--table` runs everything that the
project's goals speak of, conversions of the model included, and says which goals hold (goals.py).

Memory bandwidth of a shared machine moves by a factor of two within minutes, so an absolute speed
means little. In each round every engine runs once, with a bandwidth probe before, between and after;
the order rotates from round to round. The result is the median over rounds of the ratio of two
speeds of one round. A round whose probes differ by more than 15 % is flagged, and the median
without such rounds stands beside the median of all.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import participants
import table
from interleaving import quantile, ratios, run_rounds, spread
from participants import CASES, ROOT, BandwidthProbe, RunFailed, Workload


def summarize(rounds, subject, weight_bytes):
    """Ratios of `subject` to every other engine, absolute speeds, and shares of the bandwidth.

    `weight_bytes` maps an engine to the bytes that decoding one token reads.
    """
    clean = [r for r in rounds if not r["flagged"]]
    names = list(rounds[0]["speeds"])
    names = [subject] + sorted(n for n in names if n != subject)
    summary = {"rounds": len(rounds), "clean_rounds": len(clean), "ratios": [], "speeds": []}
    for case in CASES:
        for name in names:
            speeds = [r["speeds"][name][case] for r in rounds]
            row = {"case": case, "engine": name, **spread(speeds), "share_of_bandwidth": None}
            if case == "decode":  # each token reads the weights once
                shares = [
                    r["speeds"][name][case] * weight_bytes[name] / (quantile(r["bandwidth"], 0.5) * 1e9)
                    for r in rounds
                ]
                row["share_of_bandwidth"] = quantile(shares, 0.5)
            summary["speeds"].append(row)
        for name in names[1:]:
            row = {"case": case, "peer": name, **spread(ratios(rounds, case, subject, name)), "clean_median": None}
            if clean:
                row["clean_median"] = quantile(ratios(clean, case, subject, name), 0.5)
            summary["ratios"].append(row)
    return summary


def markdown(report):
    """The report as Markdown tables."""
    summary, work = report["summary"], report["workload"]
    lines = [
        f"`{work['model']}`, prefill {work['prompt_tokens']}, decode {work['generation_tokens']}, "
        f"{work['threads']} threads, {report['machine']}; {summary['rounds']} rounds, "
        f"{summary['rounds'] - summary['clean_rounds']} flagged.",
        "",
        "| case | peer | tessera / peer: median (IQR) | median without flagged rounds |",
        "|---|---|---:|---:|",
    ]
    for row in summary["ratios"]:
        clean = "-" if row["clean_median"] is None else f"{row['clean_median']:.2f}"
        lines.append(
            f"| {row['case']} | {row['peer']} | {row['median']:.2f} ({row['q1']:.2f}-{row['q3']:.2f}) | {clean} |"
        )
    lines += ["", "| case | engine | tokens/s: median (IQR) | share of bandwidth |", "|---|---|---:|---:|"]
    for row in summary["speeds"]:
        share = "" if row["share_of_bandwidth"] is None else f"{100 * row['share_of_bandwidth']:.0f} %"
        lines.append(
            f"| {row['case']} | {row['engine']} | {row['median']:.1f} ({row['q1']:.1f}-{row['q3']:.1f}) | {share} |"
        )
    lines += ["", "| round | bandwidth GB/s | |", "|---:|---|---|"]
    for number, result in enumerate(report["rounds"], 1):
        probes = " ".join(f"{value:.1f}" for value in result["bandwidth"])
        lines.append(f"| {number} | {probes} | {'moved' if result['flagged'] else ''} |")
    lines += ["", "| engine | version |", "|---|---|"]
    lines += [f"| {name} | {version} |" for name, version in report["versions"].items()]
    return "\n".join(lines)


def machine():
    """The processor's name and the number of processors."""
    name = platform.processor() or platform.machine()
    if Path("/proc/cpuinfo").exists():
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                name = line.partition(":")[2].strip()
                break
    elif sys.platform == "darwin":
        name = participants.first_line(["sysctl", "-n", "machdep.cpu.brand_string"])
    return f"{name}, {os.cpu_count()} processors, {platform.system()} {platform.release()}"


def revision():
    return participants.first_line(["git", "-C", ROOT, "describe", "--always", "--dirty"])


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--table", action="store_true", help="the table of the project's goals")
    parser.add_argument("--model", type=Path, help="a GGUF file; the table's default is Tessera's default model")
    parser.add_argument("--shape", help=f"table: a random model of this shape, one of {', '.join(table.SHAPES)}")
    parser.add_argument(
        "--participants",
        help="table: comma-separated, of tessera, tessera-int8, llama.cpp:TYPE and openvino:TYPE; TYPE is 'file', "
        "or what llama-quantize converts to (Q4_0, Q4_0-pure, BF16, ...)",
    )
    parser.add_argument("--int8-flags", default="--precision int8", help="table: what tessera-int8 adds to bench")
    parser.add_argument("--tessera", type=Path, default=ROOT / "build" / "release" / "bin" / "tessera")
    parser.add_argument(
        "--peers",
        default="llama.cpp,llama.cpp-fa",
        help=f"without --table: comma-separated names out of {', '.join(participants.PEER_FACTORIES)}",
    )
    parser.add_argument(
        "--peer-model",
        action="append",
        default=[],
        metavar="PEER=PATH",
        help="another file for one peer, for example the same weights in its fastest type",
    )
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--prompt-tokens", type=int, default=512)
    parser.add_argument("--generation-tokens", type=int, default=128)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--repeat", type=int, help="runs of a case in one start; the median counts; default 3, 1 with --shape"
    )
    parser.add_argument(
        "--json",
        nargs="?",
        const="-",
        metavar="FILE",
        help="write one JSON document, beside the tables; without FILE, print it instead of them",
    )
    parsed = parser.parse_args(arguments)
    if parsed.repeat is None:
        parsed.repeat = 1 if parsed.shape else 3
    if parsed.table:
        table.complete(parser, parsed)
    elif parsed.model is None or parsed.shape or parsed.participants:
        parser.error("expected --model, or --table; --shape and --participants belong to --table")
    parsed.peers = [name for name in parsed.peers.split(",") if name]
    for name in parsed.peers:
        if name not in participants.PEER_FACTORIES:
            parser.error(f"unknown peer '{name}'")
    try:
        parsed.peer_model = {n: Path(p) for n, p in (entry.split("=", 1) for entry in parsed.peer_model)}
    except ValueError:
        parser.error("--peer-model expects PEER=PATH")
    for name in parsed.peer_model:
        if name not in parsed.peers:
            parser.error(f"--peer-model names '{name}', which is not among --peers")
    for name in ("rounds", "prompt_tokens", "generation_tokens", "threads", "repeat"):
        if getattr(parsed, name) < 1:
            parser.error(f"--{name.replace('_', '-')} must be at least 1")
    for path in [parsed.model, *parsed.peer_model.values()]:
        if path and not path.exists():
            parser.error(f"no such model: {path}")
    return parsed


def engines_for(options):
    def workload(model):
        return Workload(
            model.resolve(), options.prompt_tokens, options.generation_tokens, options.threads, options.repeat
        )

    engines = [participants.tessera(workload(options.model), options.tessera)]
    for name in options.peers:
        model = options.peer_model.get(name, options.model)
        engines.append(participants.PEER_FACTORIES[name](workload(model)))
    return engines


def comparison(options):
    """The report of single peers on one file, as plain data."""
    engines = engines_for(options)
    probe = BandwidthProbe(options.threads)
    rounds = run_rounds(
        engines, probe, options.threads, options.rounds, lambda text: print(text, file=sys.stderr, flush=True)
    )
    versions = {engine.name: engine.version for engine in engines}
    versions["tessera"] += f" (source {revision()})"
    for name, path in options.peer_model.items():
        versions[name] += f" on {path.name}"
    return {
        "machine": machine(),
        "workload": {
            "model": options.model.name,
            "prompt_tokens": options.prompt_tokens,
            "generation_tokens": options.generation_tokens,
            "threads": options.threads,
            "repeat": options.repeat,
        },
        "versions": versions,
        "summary": summarize(rounds, "tessera", {engine.name: engine.weight_bytes for engine in engines}),
        "rounds": rounds,
    }


def main(arguments=None):
    options = parse_arguments(arguments)
    try:
        report = table.report(options, machine(), revision()) if options.table else comparison(options)
    except (RunFailed, OSError, subprocess.SubprocessError) as error:
        print(f"compare: {error}", file=sys.stderr)
        return 1
    document = json.dumps(report, indent=2)
    if options.json == "-":
        print(document)
        return 0
    if options.json:
        Path(options.json).write_text(document + "\n", encoding="utf-8")
    print(table.markdown(report) if options.table else markdown(report))
    return 0


if __name__ == "__main__":
    sys.exit(main())
