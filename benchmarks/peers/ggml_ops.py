#!/usr/bin/env python3
"""Speed of llama.cpp's operations alone: quantized products and flash attention of its library, ggml.

    benchmarks/peers/setup.sh ggml-ops
    benchmarks/peers/ggml_ops.py [--json [FILE]]

Operands rotate over more than four times the last-level cache. A product runs with plain weights and
with those that ggml repacks for the processor, where it can; attention with the cache laid out by
position, as llama.cpp has it, and by head. The faster one is marked and counts as the peer. "busy"
marks a start beside which other processes took more than 5 % of the processors.
"""

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

import participants
from other_work import BUSY, OtherWork
from participants import HERE, PEERS, BandwidthProbe, RunFailed, installed, json_lines, pinned

SHAPES = ((4096, 4096), (14336, 4096))
ROWS_OF_X = (1, 4, 8, 16, 512)
HEADS, KV_HEADS = 32, 8
ATTENTION = ((64, 1, 8192), (128, 1, 8192), (64, 512, 4096), (128, 512, 4096))  # head dim, queries, positions
# What tells two cases apart; the other fields of a row are how a case was run, or results.
CASE_FIELDS = ("op", "type", "rows", "columns", "m", "head_dim", "heads", "kv_heads", "queries", "positions")
SMALLEST_ROTATION = 256  # MB


def cases(types):
    """The arguments of each start of the program."""
    list_of_m = ",".join(map(str, ROWS_OF_X))
    for kind in types:
        for rows, columns in SHAPES:
            yield ["matmul", kind, rows, columns, list_of_m]
    for head_dim, queries, positions in ATTENTION:
        yield ["attention", head_dim, HEADS, KV_HEADS, queries, positions]


def built_program():
    """The program, compiled when it is missing or older than its source."""
    installed(PEERS / "llama.cpp" / "version", "llama.cpp")
    source, program = HERE / "ggml_ops.cc", PEERS / "bin" / "ggml_ops"
    if not program.exists() or program.stat().st_mtime < source.stat().st_mtime:
        subprocess.run([HERE / "setup.sh", "ggml-ops"], check=True)
    return program


def last_level_cache_mb(folder=Path("/sys/devices/system/cpu/cpu0/cache")):
    """Size of the largest cache, or 0 where the system does not say."""
    units = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    sizes = [0]
    for file in folder.glob("index*/size"):
        found = re.fullmatch(r"(\d+)([KMG]?)", file.read_text(encoding="ascii").strip())
        if found:
            sizes.append(int(found[1]) * units[found[2]] / 1e6)
    return max(sizes)


def rotation_mb(cache_mb):
    return max(SMALLEST_ROTATION, int(4.25 * cache_mb))


def mark_fastest(rows):
    """Sets `is_fastest` on one row of each case."""
    fastest = {}
    for row in rows:
        row["is_fastest"] = False
        case = tuple(row.get(field) for field in CASE_FIELDS)
        if case not in fastest or row["microseconds"] < fastest[case]["microseconds"]:
            fastest[case] = row
    for row in fastest.values():
        row["is_fastest"] = True
    return rows


def measure(options, program, probe):
    """All rows, each with the better one of the bandwidths read before and after its start."""
    results, before = [], probe()
    for case in cases(options.types.split(",")):
        command = [program, *case, "--threads", options.threads, "--rotate-mb", options.rotate_mb]
        others = OtherWork()
        command = pinned([str(part) for part in [*command, "--seconds", options.seconds]], options.threads)
        done = subprocess.run(command, capture_output=True, text=True, timeout=1800, check=False)
        if done.returncode != 0:
            raise RunFailed(f"ggml_ops: exit status {done.returncode}\n{done.stderr[-2000:]}")
        after = probe()
        beside = {"read_gb_per_s": max(before, after), "other_work": others.share()}
        rows = [{**row, **beside} for row in json_lines(done.stdout)]
        print(f"{' '.join(map(str, case))}: {len(rows)} rows", file=sys.stderr, flush=True)
        results += rows
        before = after
    return mark_fastest(results)


def markdown(report):
    lines = [
        f"ggml of llama.cpp {report['version']}, {report['threads']} threads, operands rotate over "
        f"{report['rotate_mb']} MB; medians.",
        "",
        "| operation | form | microseconds | GB/s | of bandwidth | GFLOP/s | |",
        "|---|---|---:|---:|---:|---:|---|",
    ]
    for row in report["rows"]:
        if row["op"] == "matmul":
            name = f"{row['type']} {row['rows']} x {row['columns']}, M = {row['m']}"
        else:
            name = f"attention f16, D = {row['head_dim']}, L = {row['queries']}, N = {row['positions']}"
        form = row.get("buffer") or row["layout"]
        share = f"{100 * row['gb_per_s'] / row['read_gb_per_s']:.0f} %"
        marks = ["fastest"] * row["is_fastest"] + ["busy"] * ((row["other_work"] or 0) > BUSY)
        lines.append(
            f"| {name} | {form} | {row['microseconds']:.1f} | {row['gb_per_s']:.1f} | {share} "
            f"| {row['gflop_per_s']:.0f} | {', '.join(marks)} |"
        )
    return "\n".join(lines)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--types", default="q4_0,q4_1", help="weight types, in ggml's spelling (q4_K, q8_0, bf16, ...)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=0.5, help="measured time of a case, at least")
    parser.add_argument("--rotate-mb", type=int, default=rotation_mb(last_level_cache_mb()))
    parser.add_argument("--json", nargs="?", const="-", metavar="FILE", help="as in compare.py")
    options = parser.parse_args(arguments)
    try:
        rows = measure(options, built_program(), BandwidthProbe(options.threads))
    except (RunFailed, OSError, subprocess.SubprocessError) as error:
        print(f"ggml_ops: {error}", file=sys.stderr)
        return 1
    report = {
        "version": participants.recorded_version(PEERS / "llama.cpp" / "version"),
        "threads": options.threads,
        "rotate_mb": options.rotate_mb,
        "rows": rows,
    }
    document = json.dumps(report, indent=2)
    if options.json == "-":
        print(document)
        return 0
    if options.json:
        Path(options.json).write_text(document + "\n", encoding="utf-8")
    print(markdown(report))
    return 0


if __name__ == "__main__":
    sys.exit(main())
