#!/usr/bin/env python3
"""Counts the instructions of the hot kernels with callgrind and compares them with recorded numbers.

    benchmarks/kernels/instructions.py [--program FILE] [--record] [NAME...]

Times on a shared machine move by tens of percent; instructions do not move at all, so a loop that began to do more
shows. Valgrind knows no AVX-512, so the loops for AVX2 are counted: a fixed small piece of work per kernel, on one
thread (counted.cc). More than TOLERANCE above the recorded number fails; --record writes the numbers anew, after a
change that is meant. Another compiler gives other numbers: then nothing is compared.
"""
import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
RECORDED = HERE / "instructions.json"
TOLERANCE = 0.03
TARGET = "avx2"
FUNCTION = "tessera_counted_run"


def output_of(command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def collected(report):
    """The number of instructions in what callgrind prints."""
    match = re.search(r"Collected : (\d+)", report)
    if match is None or int(match[1]) == 0:
        raise ValueError(f"callgrind counted nothing:\n{report}")
    return int(match[1])


def count(program, name):
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", f"--toggle-collect={FUNCTION}",
               str(program), name]
    run = subprocess.run(command, capture_output=True, text=True,
                         env={**os.environ, "TESSERA_KERNEL_TARGET": TARGET})
    if run.returncode != 0:
        raise RuntimeError(f"{name}: exit status {run.returncode}\n{run.stderr}")
    return collected(run.stderr)


def verdict(counted, recorded):
    """A word and whether it is a failure."""
    if recorded is None:
        return "not recorded", True
    change = counted / recorded - 1
    if change > TOLERANCE:
        return f"{change:+.1%}, more than recorded", True
    if change < -TOLERANCE:
        return f"{change:+.1%}, fewer than recorded: record it", False
    return f"{change:+.1%}", False


def compare(counts, recorded):
    failed = 0
    for name, counted in counts.items():
        words, is_failure = verdict(counted, recorded.get(name))
        failed += is_failure
        print(f"{name:<24} {counted:>12,}  {words}")
    print(f"{len(counts) - failed} passed, {failed} failed")
    return 1 if failed else 0


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--program", type=Path, default=HERE.parents[1] / "build/dev/bin/tessera_kernels_counted")
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args(arguments)
    if shutil.which("valgrind") is None:
        print("skipped: valgrind is not installed")
        return 0
    compiler = output_of([options.program, "--compiler"]).strip()
    names = options.names or output_of([options.program]).split()
    data = json.loads(RECORDED.read_text()) if RECORDED.exists() else {"instructions": {}}
    if not options.record and data.get("compiler") != compiler:
        print(f"skipped: the numbers are for compiler {data.get('compiler')}, this program is from {compiler}")
        return 0
    counts = {name: count(options.program, name) for name in names}
    if not options.record:
        return compare(counts, data["instructions"])
    kept = data["instructions"] if data.get("compiler") == compiler else {}
    data = {"compiler": compiler, "target": TARGET, "instructions": {**kept, **counts}}
    RECORDED.write_text(json.dumps(data, indent=2) + "\n")
    print(f"recorded {len(counts)} kernels in {RECORDED}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
