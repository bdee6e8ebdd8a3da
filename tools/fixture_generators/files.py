"""Deterministic writers: the same values always give the same bytes."""

import json
from pathlib import Path

import numpy as np

_SAFETENSORS_NAMES = {
    "float32": "F32",
    "float16": "F16",
    "bfloat16": "BF16",
    "int32": "I32",
    "uint32": "U32",
    "uint8": "U8",
}


class Bfloat16:
    """A float32 array that is stored as bfloat16, rounded to nearest even."""

    dtype = "bfloat16"

    def __init__(self, values):
        bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
        rounding = np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
        self.bits = ((bits + rounding) >> np.uint32(16)).astype(np.uint16)
        self.shape = self.bits.shape

    def tobytes(self):
        return self.bits.tobytes()

    def float32(self):
        return (self.bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def rounded(values, dtype):
    """`values` as an array of the named storage type."""
    if dtype == "bfloat16":
        return Bfloat16(values)
    return np.ascontiguousarray(values, dtype=dtype)


def widened(array):
    """float32 values of an array that `rounded` made."""
    if isinstance(array, Bfloat16):
        return array.float32()
    return array.astype(np.float32) if array.dtype.kind == "f" else array


def write_safetensors(path, tensors, metadata=None):
    """Writes tensors in name order; the header is padded so that data starts at a multiple of 8."""
    header, offset = {}, 0
    if metadata:
        header["__metadata__"] = dict(sorted(metadata.items()))
    for name, array in sorted(tensors.items()):
        size = len(array.tobytes())
        header[name] = {
            "dtype": _SAFETENSORS_NAMES[str(array.dtype)],
            "shape": list(array.shape),
            "data_offsets": [offset, offset + size],
        }
        offset += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little"))
        file.write(text)
        for _, array in sorted(tensors.items()):
            file.write(array.tobytes())


def write_json(path, value, compact_numbers=False):
    """Writes indented JSON; `compact_numbers` keeps lists of numbers on one line."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    text = _dump(value, "") if compact_numbers else json.dumps(value, indent=2, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")


def _dump(value, indent):
    inner = indent + "  "
    if isinstance(value, dict) and value:
        rows = [f"{inner}{json.dumps(k)}: {_dump(v, inner)}" for k, v in value.items()]
        return "{\n" + ",\n".join(rows) + "\n" + indent + "}"
    if isinstance(value, list) and any(isinstance(item, (dict, list)) for item in value):
        return "[\n" + ",\n".join(inner + _dump(v, inner) for v in value) + "\n" + indent + "]"
    return json.dumps(value, ensure_ascii=False)
