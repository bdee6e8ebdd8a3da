"""Tests of compare.py --table and the goals in it. Needs nothing installed.

    python3 benchmarks/peers/test_table.py
"""

import argparse
import json
import sys
import unittest
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parent))

import compare
import goals
import interleaving
import participants
import table
from participants import Participant, RunFailed


def fake_round(speeds, bandwidth, others=0.0):
    """`speeds` maps a name to (prefill, decode), in the order of the runs."""
    named = {name: {"prefill": prefill, "decode": decode} for name, (prefill, decode) in speeds.items()}
    moved = interleaving.bandwidth_moved(bandwidth)
    return {"speeds": named, "bandwidth": bandwidth, "flagged": moved, "other_work": others}


def a_round(factor=1.0, bandwidth=(50, 50, 50, 50, 50, 50)):
    speeds = {
        "tessera": (1000 * factor, 300 * factor),
        "llama.cpp:file": (250, 120),
        "llama.cpp:Q4_0": (800, 200),
        "llama.cpp:BF16": (900, 100),
        "openvino:F16": (1600, 60),
    }
    return fake_round(speeds, list(bandwidth))


class Goals(unittest.TestCase):
    def rows(self, rounds, wanted=goals.SHIPPED):
        return {(r["case"], r["subject"], r["versus"]): r for r in (goals.check(g, rounds) for g in wanted)}

    def test_the_fastest_peer_of_a_class_counts(self):
        rows = self.rows([a_round()])
        decode = rows["decode", "tessera", "llama.cpp, fastest conversion"]
        self.assertEqual((decode["peer"], decode["median"]), ("llama.cpp:Q4_0", 1.5))
        wide = rows["prefill", "tessera", "fastest with activations of 16 bits"]
        self.assertEqual((wide["peer"], wide["median"]), ("openvino:F16", 0.625))
        same = rows["prefill", "tessera", "llama.cpp, same file"]
        self.assertEqual((same["peer"], same["median"]), ("llama.cpp:file", 4.0))

    def test_verdicts(self):
        self.assertEqual(
            [goals.verdict(v, 2.0, 2.5) for v in (1.99, 2.0, 2.49, 2.5)], ["missed", "holds", "holds", "reached"]
        )
        self.assertEqual(
            self.rows([a_round()])["prefill", "tessera-int8", "fastest of all peers"]["verdict"], "not run"
        )

    def test_median_of_ratios_per_round(self):
        rounds = [a_round(1.0), a_round(2.0), a_round(4.0)]
        row = goals.ratio_row(rounds, "prefill", "tessera", "llama.cpp:file")
        self.assertEqual((row["q1"], row["median"], row["q3"]), (6.0, 8.0, 12.0))

    def test_a_round_is_moved_by_the_probes_beside_the_two_runs(self):
        far = a_round(2.0, (50, 50, 50, 50, 50, 20))  # moved beside openvino:F16 only
        rows = [
            goals.ratio_row([a_round(), far], "prefill", "tessera", peer) for peer in ("llama.cpp:file", "openvino:F16")
        ]
        self.assertEqual([r["moved_rounds"] for r in rows], [0, 1])
        self.assertEqual([r["still_median"] for r in rows], [6.0, 0.625])

    def test_share_is_of_the_round_s_best_bandwidth(self):
        row = goals.check_share([a_round(bandwidth=(30, 40, 50, 50, 50, 60))], decode_bytes=1e8)
        self.assertAlmostEqual(row["median"], 0.5)  # 300 tokens/s x 0.1 GB of 60 GB/s
        self.assertAlmostEqual(row["beside_median"], 0.75)  # of 40 GB/s
        self.assertEqual((row["verdict"], row["moved_rounds"], row["still_median"]), ("missed", 1, None))


class Table(unittest.TestCase):
    def options(self, *arguments):
        return compare.parse_arguments(["--table", *arguments])

    def test_defaults(self):
        self.assertEqual(self.options().participants, table.SHIPPED_PARTICIPANTS.split(","))
        shape = self.options("--shape", "llama-3.2-1b")
        self.assertEqual((shape.participants, shape.repeat), (table.RANDOM_PARTICIPANTS.split(","), 1))
        self.assertEqual(self.options("--json").json, "-")
        self.assertEqual(self.options("--json", "out.json").json, "out.json")

    def test_bad_arguments_are_refused(self):
        bad = (
            ["--shape", "huge"],
            ["--shape", "llama-3.2-1b", "--model", __file__],
            ["--participants", "tessera,other:Q4_0"],
        )
        bad += (["--participants", "tessera,tessera"], ["--participants", "llama.cpp:"], ["--model", "/nowhere"])
        for arguments in bad:
            silent = mock.patch.object(argparse.ArgumentParser, "_print_message")
            with self.subTest(arguments), silent, self.assertRaises(SystemExit):
                self.options(*arguments)

    def test_an_optional_engine_is_left_out_with_its_reason_and_another_is_not(self):
        def engine(name, model, options):
            return Participant(name, [sys.executable, "-c", f"raise SystemExit('no {name}')"], participants.parse_cases)

        with mock.patch.object(table, "engine", engine):
            engines, missing = table.usable(
                ["tessera-int8", "openvino:Q8_0"], None, SimpleNamespace(threads=1), lambda text: None
            )
            self.assertEqual(
                (engines, missing), ([], {"tessera-int8": "no tessera-int8", "openvino:Q8_0": "no openvino:Q8_0"})
            )
            with self.assertRaisesRegex(RunFailed, "no llama.cpp:Q4_0"):
                table.usable(["llama.cpp:Q4_0"], None, SimpleNamespace(threads=1), lambda text: None)

    def test_markdown(self):
        rounds = [a_round(), a_round(bandwidth=(50, 50, 50, 50, 50, 20))]
        rounds[1]["other_work"] = 0.25
        report = {
            "machine": "a machine",
            "source": "abc",
            "workload": {"model": "m", "prompt_tokens": 512, "generation_tokens": 128, "threads": 2},
            "engines": {"tessera": {"version": "1", "file": "m.gguf"}},
            "missing": {"tessera-int8": "no such flag"},
            "summary": table.summarize(rounds, goals.SHIPPED, dict.fromkeys(rounds[0]["speeds"], 1e8)),
            "rounds": rounds,
        }
        text = table.markdown(report)
        self.assertIn(
            "| prefill | tessera | llama.cpp, same file (llama.cpp:file) | 4.00 [5.50] "
            "| 4.00 (4.00-4.00) | 4.00 | 0 | holds |",
            text,
        )
        self.assertIn("| prefill | tessera-int8 | fastest of all peers | 1.10 [1.40] | - | - | - | not run |", text)
        self.assertIn(
            "| decode | tessera | best read bandwidth of the round | 0.85 | 0.60 (0.60-0.60) | 0.60 | 1 | missed |",
            text,
        )
        self.assertIn("| decode | tessera | 300.0 (300.0-300.0) | 100.0 | 60 % | 60 % |", text)
        self.assertIn("50.0 20.0 | 25 % | moved, busy |", text)
        self.assertIn("in 1 rounds: repeat", text)
        self.assertIn("| tessera-int8 | left out: no such flag | |", text)
        widths = {
            (line.count("|"), block)
            for block, part in enumerate(text.split("\n\n"))
            for line in part.split("\n")
            if line[:1] == "|"
        }
        self.assertEqual(len(widths), 5)  # every table has rows of one width

    def test_llama_bench_s_better_setting_counts_case_by_case(self):
        rows = [
            {"n_prompt": 512, "n_gen": 0, "flash_attn": 0, "samples_ts": [100.0, 120.0, 110.0]},
            {"n_prompt": 0, "n_gen": 128, "flash_attn": 0, "samples_ts": [90.0]},
            {"n_prompt": 512, "n_gen": 0, "flash_attn": 1, "samples_ts": [200.0]},
            {"n_prompt": 0, "n_gen": 128, "flash_attn": 1, "samples_ts": [80.0]},
        ]
        speeds = participants.parse_llama_bench_best("\n".join(map(json.dumps, rows)))
        self.assertEqual((speeds["prefill"], speeds["decode"]), (200.0, 90.0))
        self.assertEqual(speeds["prefill, flash attention off"], 110.0)
        self.assertEqual(speeds["decode, flash attention on"], 80.0)


if __name__ == "__main__":
    unittest.main()
