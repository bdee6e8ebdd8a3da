"""Tests of the files that the table runs on, and of the bytes that decoding reads of them. Needs nothing installed.

    python3 benchmarks/peers/test_model_files.py
"""

import json
import os
import struct
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parent))

import model_files
import participants
import tensor_bytes
from participants import RunFailed


class Bytes(unittest.TestCase):
    def gguf(self, folder, tied):
        """Two tensors of 64 bytes, or three; metadata of each kind that the reader tells apart."""

        def string(text):
            return struct.pack("<Q", len(text)) + text.encode()

        values = {"block_count": 3, "embedding_length": 64, "attention.head_count": 4, "attention.head_count_kv": 2}
        meta = string("general.architecture") + struct.pack("<I", 8) + string("llama")
        meta += string("tokens") + struct.pack("<IIQ", 9, 8, 2) + string("a") + string("bc")
        for name, value in values.items():
            meta += string(f"llama.{name}") + struct.pack("<II", 4, value)
        names = ["token_embd.weight", "blk.0.attn_q.weight"] + ([] if tied else ["output.weight"])
        infos = b"".join(string(n) + struct.pack("<IQIQ", 1, 16, 0, 64 * i) for i, n in enumerate(names))
        head = b"GGUF" + struct.pack("<IQQ", 3, len(names), 2 + len(values)) + meta + infos
        path = Path(folder) / "model.gguf"
        path.write_bytes(head + b"\0" * (-len(head) % 32) + b"\1" * 64 * len(names))
        return path

    def test_gguf_counts_the_embedding_when_it_is_the_head(self):
        with tempfile.TemporaryDirectory() as folder:
            path = self.gguf(folder, tied=True)
            self.assertEqual(tensor_bytes.read_gguf(path)[0]["tokens"], ["a", "bc"])
            self.assertEqual(tensor_bytes.decode_bytes(path, 0), 128)
            # 3 layers x 2 heads x 16 numbers x keys and values x 2 bytes for each earlier position
            self.assertEqual(tensor_bytes.decode_bytes(path, 10), 128 + 10 * 384)
            self.assertEqual(tensor_bytes.decode_bytes(path, 10, kv_element_bytes=1), 128 + 10 * 192)
            self.assertEqual(tensor_bytes.decode_bytes(self.gguf(folder, tied=False), 0), 128)

    def test_not_a_gguf_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "x.gguf"
            path.write_bytes(b"nothing")
            with self.assertRaisesRegex(ValueError, "no GGUF file"):
                tensor_bytes.read_gguf(path)

    def test_safetensors_folder(self):
        fixtures = participants.ROOT / "fixtures"
        for name in ("llama-tiny-4bit", "llama-tiny-untied"):
            folder = fixtures / name
            config = json.loads((folder / "config.json").read_text())
            sizes = tensor_bytes.read_safetensors(folder / "model.safetensors")
            expected = sum(sizes.values())
            if not config["tie_word_embeddings"]:
                expected -= sizes["model.embed_tokens.weight"]
            self.assertEqual(tensor_bytes.decode_bytes(folder, 0), expected)
            per_position = config["num_hidden_layers"] * config["num_key_value_heads"] * config["head_dim"] * 4
            self.assertEqual(tensor_bytes.decode_bytes(folder, 3), expected + 3 * per_position)


class Conversions(unittest.TestCase):
    """A script in the place of llama-quantize that writes down its arguments."""

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)
        self.source = self.folder / "model.gguf"
        self.source.write_bytes(b"x")
        self.quantize = self.folder / "quantize"
        self.quantize.write_text(
            f"#!{sys.executable}\nimport sys\nif sys.argv[-1] == 'BAD': sys.exit('no such type')\n"
            "open(sys.argv[-2], 'a').write(' '.join(sys.argv[1:-3] + sys.argv[-1:]))\n"
        )
        os.chmod(self.quantize, 0o755)

    def convert(self, kind, pure=False):
        return model_files.converted(self.source, self.folder / "made" / f"{kind}.gguf", kind, pure, self.quantize)

    def test_made_once_and_again_for_a_newer_source(self):
        first = self.convert("Q4_0")
        self.assertEqual(first.read_text(), "--allow-requantize Q4_0")
        first.write_text("kept")
        self.assertEqual(self.convert("Q4_0").read_text(), "kept")
        os.utime(self.source, (2e9, 2e9))
        self.assertEqual(self.convert("Q4_0").read_text(), "--allow-requantize Q4_0")

    def test_pure(self):
        self.assertEqual(self.convert("Q4_1", pure=True).read_text(), "--allow-requantize --pure Q4_1")

    def test_a_failure_leaves_nothing(self):
        with self.assertRaisesRegex(RunFailed, r"(?s)converting model.gguf to BAD: exit status 1.*no such type"):
            self.convert("BAD")
        self.assertEqual(list((self.folder / "made").iterdir()), [])

    def test_names(self):
        model = model_files.from_file(self.source)
        self.assertEqual(model.gguf("file"), self.source.resolve())
        with mock.patch.object(model_files, "converted", lambda source, target, kind, pure: (target.name, kind, pure)):
            name, kind, pure = model.gguf("Q4_0-pure")
            self.assertRegex(name, r"^model-[0-9a-f]{8}-Q4_0-pure\.gguf$")
            self.assertEqual((kind, pure), ("Q4_0", True))
            self.assertEqual(model.gguf("BF16")[1:], ("BF16", False))


if __name__ == "__main__":
    unittest.main()
