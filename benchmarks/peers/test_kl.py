"""Tests of kl.py with programs that are a few lines of Python. Needs nothing installed.

    python3 benchmarks/peers/test_kl.py
"""

import contextlib
import io
import json
import math
import os
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parent))

import kl
from participants import RunFailed

# As llama-perplexity prints them, with its time stamps and without.
LLAMA_BASE = """0.00.1 I perplexity: calculating perplexity over 16 chunks, n_ctx=512, batch_size=2048, n_seq=4
[1]30.3695,[2]35.9337,
0.42.4 I Final estimate: PPL = 31.7708 +/- 1.57597
"""
LLAMA_KL = """chunk             PPL               ln(PPL(Q)/PPL(base))          KL Divergence
   1      30.5999 ±    6.1756       0.00756 ±    0.00495       0.00268 ±    0.00013
====== KL divergence statistics ======
Mean    KLD:   0.002841 ±   0.000040
Maximum KLD:   0.057763
99.9%   KLD:   0.025784
99.0%   KLD:   0.011685
Median  KLD:   0.002281
 1.0%   KLD:   0.000019
Minimum KLD:  -0.000004
Mean    Δp: -0.050 ± 0.018 %
Same top p: 95.980 ± 0.308 %
"""
LLAMA_FIGURES = {"mean": 0.002841, "median": 0.002281, "q99": 0.011685, "max": 0.057763, "same_top": 0.9598}


def tessera_report(mean=1e-4, perplexity=31.7718, windows=16):
    figures = {"mean": mean, "standard_error": 1e-6, "median": 5e-5, "q90": 2e-4, "q95": 3e-4, "q99": 6e-4, "max": 0.01}
    side = {"model": "model.gguf", "dtype": "float32", "perplexity": perplexity}
    return {"a": side, "b": side, "kl": figures, "same_top": 0.99, "windows": windows}


class Parsing(unittest.TestCase):
    def test_llama_figures(self):
        figures = kl.parse_llama_kl(LLAMA_KL)
        self.assertEqual(figures.keys(), LLAMA_FIGURES.keys())
        for name, value in LLAMA_FIGURES.items():
            self.assertAlmostEqual(figures[name], value, places=12, msg=name)
        self.assertEqual(kl.parse_llama_perplexity(LLAMA_BASE), 31.7708)

    def test_time_stamps_do_not_matter(self):
        stamped = "".join(f"0.07.{n:03} I {line}\n" for n, line in enumerate(LLAMA_KL.splitlines()))
        self.assertEqual(kl.parse_llama_kl(stamped), kl.parse_llama_kl(LLAMA_KL))

    def test_missing_figures_are_named(self):
        with self.assertRaisesRegex(RunFailed, "no median in its output"):
            kl.parse_llama_kl(LLAMA_KL.replace("Median", "Middle"))
        with self.assertRaisesRegex(RunFailed, "(?s)no perplexity in its output.*you need at least 1024 tokens"):
            kl.parse_llama_perplexity("perplexity: you need at least 1024 tokens")

    def test_tessera_figures_and_its_infinity(self):
        figures, perplexity, windows = kl.parse_tessera_kl(json.dumps(tessera_report()))
        self.assertEqual(figures, {"mean": 1e-4, "median": 5e-5, "q99": 6e-4, "max": 0.01, "same_top": 0.99})
        self.assertEqual((perplexity, windows), (31.7718, 16))
        self.assertEqual(kl.parse_tessera_kl(json.dumps(tessera_report(mean=None)))[0]["mean"], math.inf)


class Perplexities(unittest.TestCase):
    def test_may_differ_by_half_a_percent(self):
        self.assertAlmostEqual(kl.compare_perplexities(100.4, 100.0), 0.004)
        self.assertAlmostEqual(kl.compare_perplexities(99.6, 100.0), -0.004)
        for ours in (100.6, 99.4, math.nan, math.inf):
            with self.assertRaisesRegex(RunFailed, "float32 perplexities disagree"):
                kl.compare_perplexities(ours, 100.0)


def script(path, body):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!{sys.executable}\nimport sys\n{body}\n", encoding="utf-8")
    os.chmod(path, 0o755)


class CommandLine(unittest.TestCase):
    """main() with scripts in the places of all programs; each appends its arguments to a log."""

    def run_main(self, *options, help_text="--dtype-b", report=None, llama_kl=LLAMA_KL, repeat=1):
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch)
            log = f"open({str(folder / 'log')!r}, 'a').write(' '.join(sys.argv[1:]) + chr(10))\n"
            model, tessera = folder / "model.gguf", folder / "tessera"
            model.write_bytes(b"0")
            text = json.dumps(report or tessera_report())
            script(tessera, log + f"print({help_text!r} if '--help' in sys.argv else {text!r})")
            script(
                folder / "bin" / "llama-perplexity",
                log + f"print({llama_kl!r} if '--kl-divergence' in sys.argv else {LLAMA_BASE!r})",
            )
            script(folder / "bin" / "llama-quantize", log + "open(sys.argv[3], 'w').write('f32')")
            (folder / "llama.cpp").mkdir()
            (folder / "llama.cpp" / "version").write_text("1\n", encoding="utf-8")
            out, err = io.StringIO(), io.StringIO()
            with mock.patch.object(kl, "PEERS", folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                for _ in range(repeat):
                    status = kl.main([str(model), "--tessera", str(tessera), *options])
            calls = (folder / "log").read_text(encoding="utf-8").splitlines() if (folder / "log").exists() else []
            return status, out.getvalue(), err.getvalue(), calls

    def test_prints_a_table(self):
        status, out, err, calls = self.run_main()
        self.assertEqual(status, 0, err)
        self.assertIn("| KL against its own float32 | tessera default | llama.cpp |", out)
        self.assertIn("| mean | 0.0001 | 0.002841 |", out)
        self.assertIn("| same top | 99.00 % | 95.98 % |", out)
        self.assertIn("31.7718, llama.cpp's 31.7708", out)
        ours = next(call for call in calls if call.startswith("kl ") and "--json" in call)
        self.assertIn("--dtype float32 --dtype-b auto", ours)
        self.assertIn("--context 512 --max-tokens 8192", ours)
        self.assertTrue(any("--chunks 16" in call and "-F32.gguf" in call for call in calls))

    def test_the_float32_file_is_written_once(self):
        *_, calls = self.run_main(repeat=2)
        self.assertEqual(sum(call.startswith("--allow-requantize") for call in calls), 1)

    def test_int8_is_measured_where_the_flag_exists(self):
        status, out, _, calls = self.run_main("--json", help_text="--precision-b NAME")
        self.assertEqual(status, 0)
        self.assertEqual(list(json.loads(out)["columns"]), ["tessera default", "tessera int8", "llama.cpp"])
        self.assertTrue(any("--precision-b int8" in call for call in calls))

    def test_output_that_lacks_its_end_is_asked_for_again(self):
        kl_output = mock.Mock(side_effect=["[1]30.3695", "[1]30.3695,[2]35", LLAMA_BASE])
        with mock.patch.object(kl, "run", kl_output):
            self.assertEqual(kl.run_llama(["program"], kl.parse_llama_perplexity), 31.7708)
        always_short = mock.Mock(return_value="[1]30.3695")
        with mock.patch.object(kl, "run", always_short), self.assertRaisesRegex(RunFailed, "no perplexity"):
            kl.run_llama(["program"], kl.parse_llama_perplexity)
        self.assertEqual(always_short.call_count, kl.ATTEMPTS)
        failing = mock.Mock(side_effect=RunFailed("exit status 1"))
        with mock.patch.object(kl, "run", failing), self.assertRaisesRegex(RunFailed, "exit status 1"):
            kl.run_llama(["program"], kl.parse_llama_perplexity)
        self.assertEqual(failing.call_count, 1)

    def test_failures_give_status_1_and_the_reason(self):
        for arguments, reason in (
            ({"report": tessera_report(perplexity=40.0)}, "disagree"),
            ({"report": tessera_report(windows=3)}, "has only 3 windows"),
            ({"llama_kl": "segmentation fault"}, "no mean in its output"),
        ):
            with self.subTest(reason):
                status, out, err, _ = self.run_main(**arguments)
                self.assertEqual((status, out), (1, ""))
                self.assertIn(reason, err)

    def test_bad_arguments_are_refused(self):
        for options in (["--windows", "1"], ["--context", "0"], ["--threads", "0"], ["--text", "no-such-file"]):
            with self.subTest(options), self.assertRaises(SystemExit) as caught:
                self.run_main(*options)
            self.assertEqual(caught.exception.code, 2)


if __name__ == "__main__":
    unittest.main()
