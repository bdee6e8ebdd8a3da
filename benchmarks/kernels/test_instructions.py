"""Tests of instructions.py. Needs nothing installed.

    python3 benchmarks/kernels/test_instructions.py
"""

import contextlib
import io
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import instructions


class Report(unittest.TestCase):
    def test_reads_the_number_collected(self):
        self.assertEqual(instructions.collected("==7== Events    : Ir\n==7== Collected : 106952\n"), 106952)

    def test_refuses_a_run_that_counted_nothing(self):
        for report in ("==7== Collected : 0\n", "==7== cannot execute\n"):
            with self.assertRaises(ValueError):
                instructions.collected(report)


class Verdict(unittest.TestCase):
    def test_fails_only_above_the_tolerance(self):
        self.assertFalse(instructions.verdict(1029, 1000)[1])
        self.assertTrue(instructions.verdict(1031, 1000)[1])

    def test_fewer_instructions_ask_for_a_new_record(self):
        words, is_failure = instructions.verdict(900, 1000)
        self.assertIn("record", words)
        self.assertFalse(is_failure)

    def test_a_kernel_without_a_number_fails(self):
        self.assertTrue(instructions.verdict(900, None)[1])

    def test_the_last_line_counts(self):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            status = instructions.compare({"a": 100, "b": 200}, {"a": 100, "b": 100})
        self.assertEqual(status, 1)
        self.assertTrue(printed.getvalue().endswith("1 passed, 1 failed\n"))


if __name__ == "__main__":
    unittest.main()
