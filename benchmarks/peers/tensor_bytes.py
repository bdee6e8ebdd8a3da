"""How many bytes of a model's file decoding one token reads: from the headers of GGUF and safetensors."""

import json
import struct
from pathlib import Path

_GGUF_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_GGUF_STRING, _GGUF_ARRAY = 8, 9


class _GgufReader:
    """The header of a GGUF file, read once from front to back."""

    def __init__(self, file):
        self.file = file

    def number(self, kind):
        kind = "<" + kind
        return struct.unpack(kind, self.file.read(struct.calcsize(kind)))[0]

    def string(self):
        return self.file.read(self.number("Q")).decode("utf-8", errors="replace")

    def value(self, kind):
        if kind == _GGUF_STRING:
            return self.string()
        if kind == _GGUF_ARRAY:
            element, count = self.number("I"), self.number("Q")
            return [self.value(element) for _ in range(count)]
        return self.number(_GGUF_NUMBERS[kind])


def read_gguf(path):
    """(metadata, {tensor name: bytes up to the next tensor}) of a GGUF file of one part."""
    with open(path, "rb") as file:
        reader = _GgufReader(file)
        if file.read(4) != b"GGUF":
            raise ValueError(f"{path} is no GGUF file")
        reader.number("I")  # version
        tensor_count, value_count = reader.number("Q"), reader.number("Q")
        metadata = {}
        for _ in range(value_count):
            name = reader.string()
            metadata[name] = reader.value(reader.number("I"))
        offsets = {}
        for _ in range(tensor_count):
            name = reader.string()
            dimensions = reader.number("I")
            file.seek(8 * dimensions + 4, 1)
            offsets[name] = reader.number("Q")
        alignment = metadata.get("general.alignment", 32)
        start = -(-file.tell() // alignment) * alignment
    ends = sorted(offsets.values())[1:] + [Path(path).stat().st_size - start]
    sizes = dict(zip(sorted(offsets, key=offsets.get), ends))
    return metadata, {name: sizes[name] - offset for name, offset in offsets.items()}


def read_safetensors(path):
    """{tensor name: bytes} of one file."""
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
    header.pop("__metadata__", None)
    return {name: entry["data_offsets"][1] - entry["data_offsets"][0] for name, entry in header.items()}


def _gguf_model(path):
    metadata, sizes = read_gguf(path)
    architecture = metadata["general.architecture"]

    def get(key, default=None):
        return metadata.get(f"{architecture}.{key}", default)

    heads = get("attention.head_count")
    head_dim = get("attention.key_length", get("embedding_length") // heads)
    elements = get("block_count") * get("attention.head_count_kv", heads) * 2 * head_dim
    return sizes, "token_embd.", "output.weight", elements


def _folder_model(path):
    config = json.loads((path / "config.json").read_text(encoding="utf-8"))
    sizes = {}
    for file in path.glob("model*.safetensors"):
        sizes.update(read_safetensors(file))
    heads = config["num_attention_heads"]
    head_dim = config.get("head_dim") or config["hidden_size"] // heads
    elements = config["num_hidden_layers"] * config.get("num_key_value_heads", heads) * 2 * head_dim
    return sizes, "model.embed_tokens.", "lm_head.weight", elements


def decode_bytes(model, position, kv_element_bytes=2):
    """Bytes that decoding the token at `position` reads: every matrix once, and the keys and values
    before it. The embedding table counts as the head where it is both; else a token reads one row of it."""
    model = Path(model)
    sizes, embedding, head, kv_elements = _folder_model(model) if model.is_dir() else _gguf_model(model)
    weights = sum(sizes.values())
    if head in sizes:
        weights -= sum(size for name, size in sizes.items() if name.startswith(embedding))
    return weights + position * kv_elements * kv_element_bytes
