"""Tests of random_model.py on a shape of a few kilobytes. Runs in the environment of `setup.sh mlx-lm`.

    .peers/mlx-lm/bin/python benchmarks/peers/test_random_model.py
"""

import json
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import gguf
import numpy as np
import random_model
import tensor_bytes
from gguf_to_mlx import rotary_order
from tokenizers import Tokenizer

CONFIG = {
    **random_model.SHAPES["llama-3.2-1b"],
    "hidden_size": 128,
    "intermediate_size": 192,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "num_hidden_layers": 1,
    "vocab_size": 600,
    "bos_token_id": 598,
    "eos_token_id": 599,
}


class RandomModel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.folder = Path(cls.scratch.name)
        random_model.write("tiny", CONFIG, cls.folder)

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def affine(self, name):
        """The values of an affine matrix, read back as a loader reads them."""
        data = (self.folder / "model.safetensors").read_bytes()
        start = 8 + int.from_bytes(data[:8], "little")
        header = json.loads(data[8:start])

        def part(end, kind):
            entry = header[f"{name}.{end}"]
            begin, stop = entry["data_offsets"]
            return np.frombuffer(data[start + begin : start + stop], kind).reshape(entry["shape"])

        words = part("weight", np.uint32)
        codes = (words[:, :, None] >> (4 * np.arange(8, dtype=np.uint32)) & 15).reshape(len(words), -1)
        scales, biases = (random_model.widened(part(end, np.uint16)) for end in ("scales", "biases"))
        return codes * np.repeat(scales, 64, axis=1) + np.repeat(biases, 64, axis=1), scales

    def test_both_forms_hold_the_same_weights(self):
        stored = {t.name: t for t in gguf.GGUFReader(self.folder / "dense.gguf").tensors}
        for name, gguf_name, rows, columns in random_model.tensors(CONFIG):
            data = stored[f"{gguf_name}.weight"].data
            if rows is None:
                self.assertTrue(np.all(data == 1))
                continue
            dense = data.astype(np.float32)
            heads = {"q_proj": 2, "k_proj": 1}.get(name.split(".")[-1])
            if heads:
                dense = dense[rotary_order(rows, heads)]  # as a converter undoes it
            values, scales = self.affine(name)
            self.assertEqual(values.shape, (rows, columns))
            self.assertAlmostEqual(float(dense.std()), random_model.DEVIATION, delta=0.001)
            # Half a step, and the rounding of scale and bias to bfloat16.
            bound = np.repeat(scales, 64, axis=1) * 0.5 + 15 * np.repeat(scales, 64, axis=1) / 256
            self.assertTrue(np.all(np.abs(values - dense) <= bound), name)

    def test_values_depend_on_the_matrix_only(self):
        self.assertTrue(np.array_equal(random_model.dense(3, 5, 64), random_model.dense(3, 7, 64)[:5]))
        self.assertFalse(np.array_equal(random_model.dense(3, 5, 64), random_model.dense(4, 5, 64)))

    def test_the_files_agree_on_sizes(self):
        config = json.loads((self.folder / "config.json").read_text())
        self.assertEqual(config["quantization"], {"group_size": 64, "bits": 4, "mode": "affine"})
        matrices = sum(r * c for _, _, r, c in random_model.tensors(CONFIG) if r)
        norms = sum(c for _, _, r, c in random_model.tensors(CONFIG) if not r)
        self.assertEqual(tensor_bytes.decode_bytes(self.folder, 0), matrices * 4.5 / 8 + norms * 2)
        self.assertGreaterEqual(tensor_bytes.decode_bytes(self.folder / "dense.gguf", 0), matrices * 2 + norms * 4)

    def test_tokenizer_has_every_id(self):
        loaded = Tokenizer.from_file(str(self.folder / "tokenizer.json"))
        self.assertEqual(loaded.get_vocab_size(), 600)
        self.assertEqual(loaded.decode(loaded.encode("Hello, world").ids), "Hello, world")
        tokens, merges = random_model.vocabulary(128256)
        self.assertEqual((len(tokens), len(set(tokens)), len(merges)), (128256, 128256, 128256 - 256 - 2))

    def test_rope_factors_of_the_shape(self):
        factors = random_model.rope_factors(CONFIG)
        self.assertEqual((len(factors), factors[0], factors[-1]), (32, 1.0, 32.0))
        self.assertTrue(np.all(np.diff(factors) >= 0))


if __name__ == "__main__":
    unittest.main()
