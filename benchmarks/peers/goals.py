"""What the table of compare.py must show for each model, and whether a set of rounds shows it.

Engines in a table are named PEER:TYPE, where TYPE is "file" for the model as shipped or a type that
llama-quantize converts to. A goal compares one of Tessera's tiers with the fastest of a class of them.
"""

from dataclasses import dataclass

from interleaving import pair_moved, probes_beside, quantile, ratios, spread

BANDWIDTH_SHARE = 0.85

# Products of these types keep activations in 16 bits or more, with either peer; products of quantized
# types round them to 8.
_WIDE = ("F32", "F16", "BF16")


def is_llama_cpp(name):
    return name.startswith("llama.cpp:")


def is_conversion(name):
    return is_llama_cpp(name) and name != "llama.cpp:file"


def has_wide_activations(name):
    return name.partition(":")[2] in _WIDE


def is_peer(name):
    return ":" in name


def exactly(expected):
    return lambda name: name == expected


@dataclass(frozen=True)
class Goal:
    """`subject` is at least `must` [`goal`] times as fast as the fastest engine of a class."""

    case: str
    subject: str
    versus: str  # the class in words
    peers: object  # name -> whether it belongs to the class
    must: float
    goal: float


SHIPPED = (
    Goal("decode", "tessera", "llama.cpp, same file", exactly("llama.cpp:file"), 2.0, 2.5),
    Goal("decode", "tessera", "llama.cpp, fastest conversion", is_conversion, 1.35, 1.7),
    Goal("prefill", "tessera", "llama.cpp, same file", exactly("llama.cpp:file"), 4.0, 5.5),
    Goal("prefill", "tessera", "fastest with activations of 16 bits", has_wide_activations, 1.2, 1.4),
    Goal("prefill", "tessera-int8", "fastest of all peers", is_peer, 1.1, 1.4),
)
RANDOM = (
    Goal("decode", "tessera", "llama.cpp Q4_1", exactly("llama.cpp:Q4_1"), 1.4, 2.0),
    Goal("decode", "tessera", "llama.cpp Q4_0", exactly("llama.cpp:Q4_0"), 1.05, 1.4),
    Goal("prefill", "tessera", "llama.cpp Q4_1", exactly("llama.cpp:Q4_1"), 4.0, 5.5),
    Goal("prefill", "tessera", "llama.cpp Q4_0", exactly("llama.cpp:Q4_0"), 1.1, 1.4),
    Goal("prefill", "tessera-int8", "llama.cpp Q4_0", exactly("llama.cpp:Q4_0"), 1.5, 2.0),
)


def ratio_row(rounds, case, subject, peer):
    """The ratio's median and quartiles, and the median of the rounds in which the bandwidth stayed."""
    still = [r for r in rounds if not pair_moved(r, subject, peer)]
    row = {"case": case, "subject": subject, "peer": peer, **spread(ratios(rounds, case, subject, peer))}
    row["moved_rounds"] = len(rounds) - len(still)
    row["still_median"] = quantile(ratios(still, case, subject, peer), 0.5) if still else None
    return row


def share_row(rounds, engine, decode_bytes):
    """Bytes read per second of decoding over the best read bandwidth of the same round; `beside_median`
    takes the better one of the two probes beside the run instead."""

    def shares(probes_of):
        return [r["speeds"][engine]["decode"] * decode_bytes / (max(probes_of(r)) * 1e9) for r in rounds]

    beside = quantile(shares(lambda r: probes_beside(r, engine)), 0.5)
    row = spread(shares(lambda r: r["bandwidth"]))
    return {"engine": engine, "decode_bytes": decode_bytes, **row, "beside_median": beside}


def verdict(value, must, goal):
    if value < must:
        return "missed"
    return "reached" if value >= goal else "holds"


def check(goal, rounds):
    """The row of a goal. The peer of its class that leaves the lowest median counts."""
    names = list(rounds[0]["speeds"])
    row = {"case": goal.case, "subject": goal.subject, "versus": goal.versus, "must": goal.must, "goal": goal.goal}
    rivals = [name for name in names if goal.peers(name)]
    if goal.subject not in names or not rivals:
        return {**row, "peer": None, "verdict": "not run"}
    rows = [ratio_row(rounds, goal.case, goal.subject, name) for name in rivals]
    row.update(min(rows, key=lambda candidate: candidate["median"]))
    return {**row, "verdict": verdict(row["median"], goal.must, goal.goal)}


def check_share(rounds, decode_bytes, engine="tessera"):
    row = {"case": "decode", "subject": engine, "versus": "best read bandwidth of the round", "peer": "bandwidth"}
    row.update(must=BANDWIDTH_SHARE, goal=BANDWIDTH_SHARE, **share_row(rounds, engine, decode_bytes))
    still = [r for r in rounds if not r["flagged"]]
    row["moved_rounds"] = len(rounds) - len(still)
    row["still_median"] = share_row(still, engine, decode_bytes)["median"] if still else None
    return {**row, "verdict": verdict(row["median"], BANDWIDTH_SHARE, BANDWIDTH_SHARE)}
