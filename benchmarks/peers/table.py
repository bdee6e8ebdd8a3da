"""compare.py --table: every engine that the project's goals speak of, on one model, and the goals' table."""

import platform
import shlex
import sys
from pathlib import Path

import goals
import participants
from interleaving import run_rounds, spread
from model_files import SHAPES, default_model, from_file, random_model
from other_work import BUSY
from participants import CASES, BandwidthProbe, RunFailed, Workload
from tensor_bytes import decode_bytes

SHIPPED_PARTICIPANTS = (
    "tessera,tessera-int8,llama.cpp:file,llama.cpp:Q4_0,llama.cpp:Q4_K,llama.cpp:Q8_0,llama.cpp:BF16,"
    "openvino:file,openvino:Q8_0,openvino:F16"
)
RANDOM_PARTICIPANTS = "tessera,tessera-int8,llama.cpp:Q4_1,llama.cpp:Q4_0"
ENGINES = {"llama.cpp": participants.llama_cpp_best, "openvino": participants.openvino}
# These may be left out, with a note: a tier that the program does not have yet, a peer that is not
# installed or does not read a type.
OPTIONAL = ("tessera-int8", "openvino:")
# OpenVINO keeps keys and values in 8 bits by default, the others in 16.
KV_ELEMENT_BYTES = {"openvino": 1}


def check_name(name):
    """Whether a participant's name is one that `engine` knows; the type is checked when it is converted."""
    peer, colon, kind = name.partition(":")
    return name in ("tessera", "tessera-int8") or (peer in ENGINES and bool(colon) and bool(kind))


def engine(name, model, options):
    """The participant of a name, with the file that it runs converted where that is needed."""

    def workload(path):
        return Workload(path, options.prompt_tokens, options.generation_tokens, options.threads, options.repeat)

    if name == "tessera":
        return participants.tessera(workload(model.tessera), options.tessera)
    if name == "tessera-int8":
        flags = shlex.split(options.int8_flags)
        return participants.tessera(workload(model.tessera), options.tessera, name, flags)
    peer, _, kind = name.partition(":")
    return ENGINES[peer](workload(model.gguf(kind)), name)


def usable(names, model, options, progress):
    """(engines, {name: why it is missing}): each runs once, which is the warm-up too, and only an optional
    one may fail."""
    engines, missing = [], {}
    for name in names:
        try:
            candidate = engine(name, model, options)
            participants.run(candidate, options.threads)
        except RunFailed as error:
            if not name.startswith(OPTIONAL):
                raise
            missing[name] = str(error).strip().splitlines()[-1]
            progress(f"{name} is left out: {missing[name]}")
            continue
        engines.append(candidate)
        progress(f"{name} runs")
    return engines, missing


def engine_decode_bytes(engines, generation_tokens):
    """{name: bytes that a token in the middle of the generation reads}"""
    return {
        e.name: decode_bytes(e.model, generation_tokens // 2, KV_ELEMENT_BYTES.get(e.name.partition(":")[0], 2))
        for e in engines
    }


def summarize(rounds, wanted, bytes_read):
    names = list(bytes_read)
    checked = [goals.check(goal, rounds) for goal in wanted]
    if "tessera" in names:
        checked.append(goals.check_share(rounds, bytes_read["tessera"]))
    subjects = [name for name in names if not goals.is_peer(name)]
    peers = [name for name in names if goals.is_peer(name)]
    return {
        "goals": checked,
        "ratios": [goals.ratio_row(rounds, c, s, p) for c in CASES for s in subjects for p in peers],
        "speeds": [
            {"case": c, "engine": n, **spread([r["speeds"][n][c] for r in rounds])} for c in CASES for n in names
        ],
        "shares": [goals.share_row(rounds, name, bytes_read[name]) for name in names],
    }


def _ratio_cells(row):
    still = "-" if row["still_median"] is None else f"{row['still_median']:.2f}"
    return f"{row['median']:.2f} ({row['q1']:.2f}-{row['q3']:.2f}) | {still} | {row['moved_rounds']}"


def is_busy(result):
    return (result["other_work"] or 0) > BUSY


def markdown(report):
    """The report as Markdown tables."""
    work, summary = report["workload"], report["summary"]
    busy = sum(map(is_busy, report["rounds"]))
    lines = [
        f"{work['model']}, prefill {work['prompt_tokens']}, decode {work['generation_tokens']}, "
        f"{work['threads']} threads, {report['machine']}; source {report['source']}; "
        f"{len(report['rounds'])} rounds. Ratios are medians "
        "over rounds, with quartiles; a round counts as moved where the read bandwidth beside the two runs "
        f"differs by more than 15 %. Other processes took more than {100 * BUSY:.0f} % of the processors in "
        f"{busy} rounds" + (": repeat those on an idle machine." if busy else "."),
        "",
        "| case | engine | against | must [goal] | ratio (IQR) | without moved | moved | |",
        "|---|---|---|---:|---:|---:|---:|---|",
    ]
    for row in summary["goals"]:
        head = f"| {row['case']} | {row['subject']} | {row['versus']}"
        bound = f"{row['must']:.2f}" + (f" [{row['goal']:.2f}]" if row["goal"] != row["must"] else "")
        if row["verdict"] == "not run":
            lines.append(f"{head} | {bound} | - | - | - | not run |")
            continue
        peer = f" ({row['peer']})" if goals.is_peer(row["peer"]) else ""
        lines.append(f"{head}{peer} | {bound} | {_ratio_cells(row)} | {row['verdict']} |")
    lines += ["", "| case | engine | peer | ratio (IQR) | without moved | moved |", "|---|---|---|---:|---:|---:|"]
    lines += [f"| {r['case']} | {r['subject']} | {r['peer']} | {_ratio_cells(r)} |" for r in summary["ratios"]]
    shares = {row["engine"]: row for row in summary["shares"]}
    lines += [
        "",
        "| case | engine | tokens/s (IQR) | MB per token | of the round's best bandwidth | of that beside the run |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for row in summary["speeds"]:
        cells = " | | "
        if row["case"] == "decode":
            share = shares[row["engine"]]
            cells = f"{share['decode_bytes'] / 1e6:.1f} "
            cells += f"| {100 * share['median']:.0f} % | {100 * share['beside_median']:.0f} %"
        speeds = f"{row['median']:.1f} ({row['q1']:.1f}-{row['q3']:.1f})"
        lines.append(f"| {row['case']} | {row['engine']} | {speeds} | {cells} |")
    lines += ["", "| round | order | bandwidth GB/s | other work | |", "|---:|---|---|---:|---|"]
    for number, result in enumerate(report["rounds"], 1):
        probes = " ".join(f"{value:.1f}" for value in result["bandwidth"])
        others = "-" if result["other_work"] is None else f"{100 * result['other_work']:.0f} %"
        marks = ["moved"] * result["flagged"] + ["busy"] * is_busy(result)
        lines.append(f"| {number} | {', '.join(result['speeds'])} | {probes} | {others} | {', '.join(marks)} |")
    lines += ["", "| engine | version | file |", "|---|---|---|"]
    lines += [f"| {name} | {e['version']} | {e['file']} |" for name, e in report["engines"].items()]
    lines += [f"| {name} | left out: {why} | |" for name, why in report["missing"].items()]
    return "\n".join(lines)


def cpu_features():
    """The vector and matrix extensions that the processor reports; nothing where the system hides them."""
    path = Path("/proc/cpuinfo")
    if not path.exists():
        return []
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith(("flags", "Features")):
            wanted = ("avx", "fma", "f16c", "amx", "sve", "asimd", "i8mm", "bf16")
            return sorted(word for word in line.partition(":")[2].split() if word.startswith(wanted))
    return []


def report(options, machine, revision):
    """Runs everything and returns the report as plain data."""

    def progress(text):
        print(text, file=sys.stderr, flush=True)

    if options.shape:
        model, wanted = random_model(options.shape), goals.RANDOM
    else:
        model = from_file(options.model) if options.model else default_model(options.tessera)
        wanted = goals.SHIPPED
    engines, missing = usable(options.participants, model, options, progress)
    if not engines:
        raise RunFailed("no participant is left")
    probe = BandwidthProbe(options.threads)
    rounds = run_rounds(engines, probe, options.threads, options.rounds, progress, warm_up=False)
    return {
        "machine": machine,
        "cpu_features": cpu_features(),
        "python": platform.python_version(),
        "source": revision,
        "workload": {
            "model": model.name,
            "prompt_tokens": options.prompt_tokens,
            "generation_tokens": options.generation_tokens,
            "threads": options.threads,
            "repeat": options.repeat,
        },
        "engines": {
            e.name: {"version": e.version, "file": e.model.name, "command": [str(part) for part in e.command]}
            for e in engines
        },
        "missing": missing,
        "summary": summarize(rounds, wanted, engine_decode_bytes(engines, options.generation_tokens)),
        "rounds": rounds,
    }


def complete(parser, parsed):
    """Fills in what --table leaves open and refuses what does not fit it."""
    if parsed.shape and parsed.model:
        parser.error("--model and --shape exclude each other")
    if parsed.shape and parsed.shape not in SHAPES:
        parser.error(f"unknown shape '{parsed.shape}'; expected one of {', '.join(SHAPES)}")
    names = parsed.participants or (RANDOM_PARTICIPANTS if parsed.shape else SHIPPED_PARTICIPANTS)
    parsed.participants = [name for name in names.split(",") if name]
    for name in parsed.participants:
        if not check_name(name):
            parser.error(
                f"unknown participant '{name}'; expected tessera, tessera-int8, llama.cpp:TYPE or openvino:TYPE"
            )
    if len(set(parsed.participants)) < len(parsed.participants) or not parsed.participants:
        parser.error("--participants expects different names")
