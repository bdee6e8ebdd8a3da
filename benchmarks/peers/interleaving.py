"""The method of compare.py: interleaved rounds with bandwidth probes between them, and their statistics.

Every engine runs once per round, and the order rotates. A speed is only ever compared with another
speed of its own round.
"""

import json

import participants
from other_work import OtherWork

BANDWIDTH_TOLERANCE = 0.15


def quantile(values, fraction):
    """Linear interpolation between order statistics; the median is quantile(values, 0.5)."""
    ordered = sorted(values)
    if not ordered:
        raise ValueError("no values")
    position = fraction * (len(ordered) - 1)
    low = int(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


def spread(values):
    """The three numbers that a table cell shows."""
    return {"median": quantile(values, 0.5), "q1": quantile(values, 0.25), "q3": quantile(values, 0.75)}


def bandwidth_moved(probes, tolerance=BANDWIDTH_TOLERANCE):
    """Whether some probes differ by more than `tolerance` of the highest."""
    return (max(probes) - min(probes)) > tolerance * max(probes)


def rotated(items, step):
    step %= len(items)
    return items[step:] + items[:step]


def run_round(engines, probe, threads, number):
    """One run of each engine with probes around it."""
    others = OtherWork()
    probes, speeds = [probe()], {}  # speeds keep the order of the runs: probe i comes before run i
    for engine in rotated(engines, number):
        speeds[engine.name] = participants.run(engine, threads)
        probes.append(probe())
    result = {"speeds": speeds, "bandwidth": probes, "flagged": bandwidth_moved(probes)}
    return {**result, "other_work": others.share()}


def probes_beside(result, name):
    """The probes before and after an engine's run."""
    at = list(result["speeds"]).index(name)
    return result["bandwidth"][at : at + 2]


def pair_moved(result, subject, peer):
    """Whether the bandwidth moved between the probes on both sides of two engines' runs."""
    return bandwidth_moved(probes_beside(result, subject) + probes_beside(result, peer))


def run_rounds(engines, probe, threads, rounds, progress=lambda text: None, warm_up=True):
    """The measured rounds; after one more, which is discarded, unless the engines ran already."""
    if warm_up:
        run_round(engines, probe, threads, 0)
        progress("warm-up done")
    results = []
    for number in range(rounds):
        results.append(run_round(engines, probe, threads, number))
        progress(f"round {number + 1} of {rounds}: {json.dumps(results[-1])}")
    return results


def ratios(rounds, case, subject, peer):
    return [r["speeds"][subject][case] / r["speeds"][peer][case] for r in rounds]
