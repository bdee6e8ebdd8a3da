"""The programs that compare.py runs: how each is called, and how its output is read."""

import json
import os
import statistics
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PEERS = ROOT / ".peers"
CASES = ("prefill", "decode")


@dataclass(frozen=True)
class Workload:
    model: Path
    prompt_tokens: int = 512
    generation_tokens: int = 128
    threads: int = 2
    repeat: int = 3  # runs of a case within one start of an engine that can do that

    def weight_bytes(self):
        """Size of the weights: of one file, or of all safetensors of a directory."""
        files = [self.model] if self.model.is_file() else list(self.model.glob("*.safetensors"))
        return sum(file.stat().st_size for file in files)


@dataclass(frozen=True)
class Participant:
    """One engine. `parse` turns its standard output into {case: tokens per second}."""

    name: str
    command: list
    parse: object
    weight_bytes: int = 0  # what decoding one token reads
    version: str = "unknown"
    environment: dict = field(default_factory=dict)
    model: Path = None  # the file or folder that it runs


class RunFailed(Exception):
    """A participant ended with an error, printed nothing usable, or is not installed."""


def json_lines(text):
    """The objects among the lines of `text`; other lines are ignored."""
    for line in text.splitlines():
        if line.startswith("{"):
            yield json.loads(line)


def parse_cases(text):
    """Output of `tessera bench --json` and of mlx_lm_bench.py."""
    return {row["case"]: float(row["tokens_per_second"]) for row in json_lines(text) if row.get("case") in CASES}


def parse_llama_bench(text):
    """Output of `llama-bench -o jsonl`: a prompt test and a generation test, with the speed of each run."""
    speeds = {}
    for row in json_lines(text):
        speeds["prefill" if row["n_prompt"] > 0 else "decode"] = statistics.median(row["samples_ts"])
    return speeds


def parse_llama_bench_best(text):
    """Like parse_llama_bench for a run with `-fa off,on`: the better setting counts, case by case.

    The speed of each setting stays in the result, under a name such as "prefill, flash attention on".
    """
    speeds = {}
    for row in json_lines(text):
        case, setting = "prefill" if row["n_prompt"] > 0 else "decode", "on" if row["flash_attn"] else "off"
        speed = statistics.median(row["samples_ts"])
        speeds[f"{case}, flash attention {setting}"] = speed
        speeds[case] = max(speed, speeds.get(case, 0))
    return speeds


def pinned(command, threads):
    """The command bound to the first `threads` processors, where the system can do that."""
    if sys.platform != "linux" or not hasattr(os, "sched_getaffinity"):
        return command
    processors = sorted(os.sched_getaffinity(0))[:threads]
    return ["taskset", "--cpu-list", ",".join(map(str, processors)), *command]


def run(participant, threads, timeout=1800):
    """{case: tokens per second} of one run."""
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), **participant.environment}
    command = pinned([str(part) for part in participant.command], threads)
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired as error:
        raise RunFailed(f"{participant.name}: no result after {timeout} s") from error
    if done.returncode != 0:
        raise RunFailed(f"{participant.name}: exit status {done.returncode}\n{done.stderr[-2000:]}")
    speeds = participant.parse(done.stdout)
    missing = [case for case in CASES if not speeds.get(case, 0) > 0]
    if missing:
        raise RunFailed(f"{participant.name}: no speed for {', '.join(missing)} in its output\n{done.stdout[-2000:]}")
    return speeds


def first_line(command):
    """What a program prints for --version, or why there is nothing."""
    try:
        done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=60, check=False)
    except OSError as error:
        return f"unknown ({error.strerror})"
    lines = (done.stdout + done.stderr).strip().splitlines()
    return lines[0] if lines else "unknown"


def installed(path, part):
    """The path of something that setup.sh installs."""
    if not path.exists():
        raise RunFailed(f"{path} is missing; run benchmarks/peers/setup.sh {part}")
    return path


def recorded_version(path):
    return path.read_text(encoding="utf-8").strip() if path.exists() else "unknown"


def tessera(work, program, name="tessera", flags=()):
    command = [program, "bench", "--model", work.model, "--prompt-tokens", work.prompt_tokens]
    command += ["--generation-tokens", work.generation_tokens, "--threads", work.threads]
    command += ["--repeat", work.repeat, *flags, "--json"]
    version = first_line([program, "--version"])
    return Participant(name, command, parse_cases, work.weight_bytes(), version, model=work.model)


def _llama_bench(work, flash_attention, name, parse):
    program = installed(PEERS / "bin" / "llama-bench", "llama.cpp")
    command = [program, "-m", work.model, "-p", work.prompt_tokens, "-n", work.generation_tokens]
    command += ["-t", work.threads, "-r", work.repeat, "-fa", flash_attention, "-o", "jsonl"]
    version = recorded_version(PEERS / "llama.cpp" / "version")
    return Participant(name, command, parse, work.weight_bytes(), version, model=work.model)


def llama_cpp(work, flash_attention):
    if flash_attention:
        return _llama_bench(work, "on", "llama.cpp-fa", parse_llama_bench)
    return _llama_bench(work, "off", "llama.cpp", parse_llama_bench)


def llama_cpp_best(work, name):
    """llama.cpp with and without flash attention in one run; the better setting of each case counts."""
    return _llama_bench(work, "off,on", name, parse_llama_bench_best)


def openvino(work, name):
    python = installed(PEERS / "openvino" / "bin" / "python", "openvino")
    command = [python, HERE / "openvino_bench.py", "--model", work.model, "--prompt-tokens", work.prompt_tokens]
    command += ["--generation-tokens", work.generation_tokens, "--threads", work.threads, "--repeat", work.repeat]
    version = recorded_version(PEERS / "openvino" / "version")
    return Participant(name, command, parse_cases, work.weight_bytes(), version, model=work.model)


def mlx_lm(work):
    """Converts a GGUF file once, beside the peers, and again when the file or the converter is newer."""
    python = installed(PEERS / "mlx-lm" / "bin" / "python", "mlx-lm")
    model = work.model
    if model.suffix == ".gguf":
        model = PEERS / "models" / (work.model.stem + "-mlx")
        written, converter = model / "config.json", HERE / "gguf_to_mlx.py"
        newest = max(work.model.stat().st_mtime, converter.stat().st_mtime)
        if not written.exists() or written.stat().st_mtime < newest:
            subprocess.run([python, converter, work.model, model], check=True)
    command = [python, HERE / "mlx_lm_bench.py", "--model", model]
    command += ["--prompt-tokens", work.prompt_tokens, "--generation-tokens", work.generation_tokens]
    version = recorded_version(PEERS / "mlx-lm" / "version")
    return Participant("mlx-lm", command, parse_cases, work.weight_bytes(), version)


PEER_FACTORIES = {
    "llama.cpp": lambda work: llama_cpp(work, flash_attention=False),
    "llama.cpp-fa": lambda work: llama_cpp(work, flash_attention=True),
    "mlx-lm": mlx_lm,
    "openvino": lambda work: openvino(work, "openvino"),
}


class BandwidthProbe:
    """benchmarks/bandwidth.c, compiled when it is missing or older than its source."""

    def __init__(self, threads, program=None):
        self.threads = threads
        self.program = program or self._build()

    @staticmethod
    def _build():
        source, program = ROOT / "benchmarks" / "bandwidth.c", PEERS / "bin" / "bandwidth"
        if not program.exists() or program.stat().st_mtime < source.stat().st_mtime:
            subprocess.run([HERE / "setup.sh", "probe"], check=True)
        return program

    def __call__(self):
        command = pinned([str(self.program), "--threads", str(self.threads)], self.threads)
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        if done.returncode != 0:
            raise RunFailed(f"bandwidth: exit status {done.returncode}\n{done.stderr[-2000:]}")
        return json.loads(done.stdout)["read_gb_per_s"]
