"""Tests of ggml_ops.py. Needs nothing installed.

    python3 benchmarks/peers/test_ggml_ops.py
"""

import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import ggml_ops


class Operations(unittest.TestCase):
    def test_rotation_exceeds_four_times_the_cache(self):
        self.assertEqual(ggml_ops.rotation_mb(0), 256)
        self.assertGreater(ggml_ops.rotation_mb(100), 400)
        with tempfile.TemporaryDirectory() as folder:
            for index, size in (("index0", "32K"), ("index3", "64M")):
                (Path(folder) / index).mkdir()
                (Path(folder) / index / "size").write_text(size + "\n")
            self.assertAlmostEqual(ggml_ops.last_level_cache_mb(Path(folder)), 67.108864)

    def test_the_fastest_form_of_each_case_is_marked(self):
        rows = [
            {"op": "matmul", "type": "q4_0", "rows": 8, "columns": 8, "m": 1, "buffer": "CPU", "microseconds": 9},
            {
                "op": "matmul",
                "type": "q4_0",
                "rows": 8,
                "columns": 8,
                "m": 1,
                "buffer": "CPU_REPACK",
                "microseconds": 5,
            },
            {"op": "matmul", "type": "q4_0", "rows": 8, "columns": 8, "m": 4, "buffer": "CPU", "microseconds": 7},
        ]
        self.assertEqual([row["is_fastest"] for row in ggml_ops.mark_fastest(rows)], [False, True, True])


if __name__ == "__main__":
    unittest.main()
