"""Tests of compare.py with engines that are one line of Python. Needs nothing installed.

    python3 benchmarks/peers/test_compare.py
"""

import contextlib
import io
import json
import os
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parent))

import compare
import interleaving
import other_work
import participants
from participants import Participant, RunFailed, Workload


def fake_engine(name, prefill, decode, weight_bytes=0):
    """A program that prints the two cases as Tessera does."""
    rows = [{"case": "prefill", "tokens_per_second": prefill}, {"case": "decode", "tokens_per_second": decode}]
    text = "loading\n" + "\n".join(map(json.dumps, rows))
    return Participant(name, [sys.executable, "-c", f"print({text!r})"], participants.parse_cases, weight_bytes)


def fake_round(tessera, peer, bandwidth):
    speeds = {"tessera": {"prefill": tessera, "decode": 2 * tessera}, "peer": {"prefill": peer, "decode": peer}}
    return {"speeds": speeds, "bandwidth": bandwidth, "flagged": interleaving.bandwidth_moved(bandwidth)}


class Statistics(unittest.TestCase):
    def test_quantile_interpolates(self):
        self.assertEqual(interleaving.quantile([3, 1, 2], 0.5), 2)
        self.assertEqual(interleaving.quantile([4, 1, 3, 2], 0.5), 2.5)
        self.assertEqual(interleaving.quantile([0, 10], 0.25), 2.5)
        self.assertEqual(interleaving.quantile([7], 0.75), 7)
        self.assertEqual(interleaving.quantile([1, 5, 9], 1.0), 9)
        with self.assertRaises(ValueError):
            interleaving.quantile([], 0.5)

    def test_bandwidth_moves_relative_to_the_highest_probe(self):
        self.assertFalse(interleaving.bandwidth_moved([100, 86, 90]))
        self.assertFalse(interleaving.bandwidth_moved([100, 85]))
        self.assertTrue(interleaving.bandwidth_moved([100, 84]))
        self.assertFalse(interleaving.bandwidth_moved([50]))

    def test_ratio_is_a_median_of_ratios_not_a_ratio_of_medians(self):
        rounds = [fake_round(10, 1, [50]), fake_round(2, 2, [50]), fake_round(30, 20, [50])]
        row = compare.summarize(rounds, "tessera", {"tessera": 1, "peer": 1})["ratios"][0]
        self.assertEqual((row["case"], row["peer"]), ("prefill", "peer"))
        self.assertEqual(row["median"], 1.5)  # of 10, 1 and 1.5; the medians 10 and 2 would give 5
        self.assertEqual((row["q1"], row["q3"]), (1.25, 5.75))

    def test_flagged_rounds_are_left_out_of_the_clean_median(self):
        rounds = [fake_round(4, 1, [50, 20]), fake_round(2, 1, [50, 49])]
        summary = compare.summarize(rounds, "tessera", {"tessera": 1, "peer": 1})
        self.assertEqual(summary["clean_rounds"], 1)
        self.assertEqual(summary["ratios"][0]["median"], 3)
        self.assertEqual(summary["ratios"][0]["clean_median"], 2)

    def test_no_clean_round_gives_no_clean_median(self):
        summary = compare.summarize([fake_round(4, 1, [50, 20])], "tessera", {"tessera": 1, "peer": 1})
        self.assertIsNone(summary["ratios"][0]["clean_median"])

    def test_share_of_bandwidth_uses_each_engine_s_bytes(self):
        summary = compare.summarize([fake_round(50, 25, [10, 20, 30])], "tessera", {"tessera": 1e8, "peer": 2e8})
        shares = {(r["case"], r["engine"]): r["share_of_bandwidth"] for r in summary["speeds"]}
        self.assertAlmostEqual(shares[("decode", "tessera")], 0.5)  # 100 tokens/s x 0.1 GB of 20 GB/s
        self.assertAlmostEqual(shares[("decode", "peer")], 0.25)
        self.assertIsNone(shares[("prefill", "tessera")])


class Rounds(unittest.TestCase):
    def test_order_rotates_and_probes_surround_every_run(self):
        order = []
        engines = [fake_engine(name, 1, 1) for name in ("a", "b", "c")]

        def record(engine, threads):
            order.append(engine.name)
            return {"prefill": 1.0, "decode": 1.0}

        def probe():
            order.append("|")
            return 50.0

        with mock.patch.object(participants, "run", record):
            rounds = interleaving.run_rounds(engines, probe, 2, 2)
        self.assertEqual("".join(order), "|a|b|c|" + "|a|b|c|" + "|b|c|a|")
        self.assertEqual(len(rounds), 2)
        self.assertEqual(rounds[0]["bandwidth"], [50.0] * 4)

    def test_a_pair_s_bandwidth_is_that_beside_its_two_runs(self):
        result = {"speeds": {"a": {}, "b": {}, "c": {}}, "bandwidth": [50, 50, 50, 20]}
        self.assertEqual(interleaving.probes_beside(result, "b"), [50, 50])
        self.assertFalse(interleaving.pair_moved(result, "a", "b"))
        self.assertTrue(interleaving.pair_moved(result, "a", "c"))

    def test_runs_real_programs(self):
        engines = [fake_engine("tessera", 300, 200), fake_engine("peer", 100, 50)]
        rounds = interleaving.run_rounds(engines, lambda: 40.0, 1, 1)
        self.assertEqual(rounds[0]["speeds"]["tessera"], {"prefill": 300.0, "decode": 200.0})
        summary = compare.summarize(rounds, "tessera", {"tessera": 1, "peer": 1})
        self.assertEqual([row["median"] for row in summary["ratios"]], [3.0, 4.0])

    def test_failures_name_the_engine_and_the_reason(self):
        dies = Participant("peer", [sys.executable, "-c", "raise SystemExit('no such model')"], participants.parse_cases)
        with self.assertRaisesRegex(RunFailed, r"(?s)peer: exit status 1.*no such model"):
            participants.run(dies, 1)
        silent = Participant("peer", [sys.executable, "-c", "pass"], participants.parse_cases)
        with self.assertRaisesRegex(RunFailed, "peer: no speed for prefill, decode"):
            participants.run(silent, 1)
        with self.assertRaisesRegex(RunFailed, "no speed for decode"):
            participants.run(fake_engine("peer", 1, 0), 1)

    def test_threads_reach_the_environment(self):
        code = "import os,json; print(json.dumps({'case': 'prefill', 'tokens_per_second': os.environ['OMP_NUM_THREADS']}))"
        code += "; print(json.dumps({'case': 'decode', 'tokens_per_second': 1}))"
        engine = Participant("peer", [sys.executable, "-c", code], participants.parse_cases)
        self.assertEqual(participants.run(engine, 1)["prefill"], 1.0)


class OtherWork(unittest.TestCase):
    def test_busy_seconds_leave_idle_and_waiting_out(self):
        tick = os.sysconf("SC_CLK_TCK")
        ticks = [n * tick for n in (1, 2, 4, 1000, 2000, 8, 16, 32)]
        self.assertEqual(other_work.busy_seconds("cpu  " + " ".join(map(str, ticks)) + " 0 0"), 63)

    def test_other_work_is_a_share_or_unknown(self):
        self.assertIsNone(other_work.OtherWork(Path("/nowhere/stat")).share())
        with tempfile.TemporaryDirectory() as folder:
            stat = Path(folder) / "stat"
            stat.write_text("cpu  0 0 0 0 0 0 0 0\n")
            others = other_work.OtherWork(stat)
            stat.write_text("cpu  999999999 0 0 0 0 0 0 0\n")
            self.assertEqual(others.share(), 1.0)


class Parsing(unittest.TestCase):
    def test_llama_bench_rows_give_the_median_of_their_runs(self):
        rows = [
            {"n_prompt": 512, "n_gen": 0, "avg_ts": 250.0, "samples_ts": [100.0, 320.0, 330.0]},
            {"n_prompt": 0, "n_gen": 128, "avg_ts": 90.0, "samples_ts": [90.0]},
        ]
        text = "warning: something\n" + "\n".join(map(json.dumps, rows))
        self.assertEqual(participants.parse_llama_bench(text), {"prefill": 320.0, "decode": 90.0})

    def test_other_cases_are_ignored(self):
        text = '{"case": "load", "tokens_per_second": 1}\n{"case": "decode", "tokens_per_second": 5}'
        self.assertEqual(participants.parse_cases(text), {"decode": 5.0})

    def test_weight_bytes_of_a_directory_count_safetensors_only(self):
        with tempfile.TemporaryDirectory() as scratch:
            for name, size in (("a.safetensors", 30), ("b.safetensors", 12), ("config.json", 99)):
                (Path(scratch) / name).write_bytes(b"x" * size)
            self.assertEqual(Workload(Path(scratch)).weight_bytes(), 42)
            self.assertEqual(Workload(Path(scratch) / "config.json").weight_bytes(), 99)


class CommandLine(unittest.TestCase):
    """main() with a script in Tessera's place and one in the place of a peer."""

    def run_main(self, *options, tessera_speed=200):
        with tempfile.TemporaryDirectory() as scratch:
            model = Path(scratch) / "model.gguf"
            model.write_bytes(b"0" * 1000)
            program = Path(scratch) / "tessera"
            rows = [{"case": case, "tokens_per_second": tessera_speed} for case in participants.CASES]
            lines = "\n".join(map(json.dumps, rows))
            program.write_text(f"#!{sys.executable}\nimport sys\nprint('tessera 0' if '--version' in sys.argv else {lines!r})\n")
            os.chmod(program, 0o755)
            probe = mock.patch.object(compare, "BandwidthProbe", lambda threads: lambda: 30.0)
            peers = mock.patch.dict(participants.PEER_FACTORIES, {"fake": lambda work: fake_engine("fake", 100, 50)})
            out, err = io.StringIO(), io.StringIO()
            with probe, peers, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                status = compare.main(
                    ["--model", str(model), "--tessera", str(program), "--threads", "1", "--peers", "fake", *options]
                )
            return status, out.getvalue(), err.getvalue()

    def test_prints_tables(self):
        status, out, _ = self.run_main("--rounds", "2")
        self.assertEqual(status, 0)
        self.assertIn("| prefill | fake | 2.00 (2.00-2.00) | 2.00 |", out)
        self.assertIn("| decode | fake | 4.00 (4.00-4.00) | 4.00 |", out)
        self.assertIn("| 2 | 30.0 30.0 30.0 |  |", out)
        self.assertIn("| tessera | tessera 0 (source ", out)

    def test_prints_json(self):
        status, out, _ = self.run_main("--rounds", "1", "--json")
        report = json.loads(out)
        self.assertEqual(status, 0)
        self.assertEqual(report["workload"]["model"], "model.gguf")
        self.assertEqual([row["median"] for row in report["summary"]["ratios"]], [2.0, 4.0])
        self.assertEqual(len(report["rounds"]), 1)

    def test_a_failing_engine_gives_status_1(self):
        status, out, err = self.run_main("--rounds", "1", tessera_speed=0)
        self.assertEqual((status, out), (1, ""))
        self.assertIn("tessera: no speed for prefill, decode", err)

    def test_bad_arguments_are_refused(self):
        for options in (["--peers", "nobody"], ["--rounds", "0"], ["--peer-model", "x"], ["--peer-model", "other=y"]):
            with self.subTest(options), self.assertRaises(SystemExit) as caught:
                self.run_main(*options)
            self.assertEqual(caught.exception.code, 2)


if __name__ == "__main__":
    unittest.main()
