"""GGUF tensor types: blocks, and the values that the gguf package reads from them."""

import gguf
import numpy as np

from .files import write_safetensors

TYPES = ["f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "q4_k", "q5_k", "q6_k", "q3_k", "q2_k"]
K_TYPES = {"q4_k", "q5_k", "q6_k", "q3_k", "q2_k"}

# Where the float16 factors stand in a block, and the ratio of the second to the first that
# centres the values of random codes on zero (mean code x mean scale / mean minimum).
_FACTORS = {"q4_k": ((0, 2), 7.5), "q5_k": ((0, 2), 15.5), "q2_k": ((80, 82), 1.5), "q3_k": ((108,), 0), "q6_k": ((208,), 0)}

# The standard deviation of the values when the factor is 1 and every other byte is random.
_UNIT_DEVIATION = {"q4_k": 256.0, "q5_k": 512.0, "q2_k": 12.5, "q3_k": 42.0, "q6_k": 1365.0}


def qtype(name):
    return gguf.GGMLQuantizationType[name.upper()]


def random_k_blocks(rng, rows, columns, name, deviation):
    """uint8 [rows, bytes of a row]: random codes and scales of a K-quant, about `deviation` wide."""
    block, size = gguf.GGML_QUANT_SIZES[qtype(name)]
    blocks = rng.integers(0, 256, (rows * (columns // block), size)).astype(np.uint8)
    offsets, ratio = _FACTORS[name]
    factor = deviation / _UNIT_DEVIATION[name] * (0.75 + 0.5 * rng.random((len(blocks), 1)))
    for offset, scale in zip(offsets, (1.0, ratio)):
        blocks[:, offset : offset + 2] = (factor * scale).astype(np.float16).view(np.uint8)
    return blocks.reshape(rows, -1)


def encode(values, name):
    """(stored array, dequantized float32) of a float32 matrix in a type the gguf package can write."""
    stored = gguf.quantize(np.ascontiguousarray(values, dtype=np.float32), qtype(name))
    return stored, gguf.dequantize(stored, qtype(name)).reshape(values.shape)


def _awkward_rows(rng):
    """Values that meet a quantizer's corners: zeros, one sign, wide and narrow ranges, ties."""
    rows = rng.standard_normal((8, 256), dtype=np.float32)
    rows[1] = 0
    rows[2] = np.abs(rows[2])
    rows[3] = -np.abs(rows[3])
    rows[4] *= np.float32(1e-4)
    rows[5] *= np.float32(300)
    rows[6] = np.round(rows[6] * 8) / 8
    rows[7, ::32] *= np.float32(50)
    return rows


def make(root, seed=301):
    """fixtures/gguf-blocks/<type>.bin with <type>.safetensors beside it."""
    directory = root / "gguf-blocks"
    directory.mkdir(parents=True, exist_ok=True)
    for index, name in enumerate(TYPES):
        rng = np.random.Generator(np.random.PCG64([seed, index]))
        if name in K_TYPES:
            stored = random_k_blocks(rng, 8, 256, name, 1.0)
            _set_corner_blocks(stored, name)
            values = gguf.dequantize(stored, qtype(name))
        else:
            stored, values = encode(_awkward_rows(rng), name)
        (directory / f"{name}.bin").write_bytes(np.ascontiguousarray(stored).tobytes())
        values = np.ascontiguousarray(values, dtype=np.float32).reshape(8, 256)
        assert np.isfinite(values).all()
        write_safetensors(directory / f"{name}.safetensors", {"values": values})
    return {"seed": seed}


def _set_corner_blocks(stored, name):
    """Rows 1 to 4: all bytes 0, all bytes 255, a negative factor, a subnormal factor."""
    offsets, _ = _FACTORS[name]
    keep = stored.copy()
    stored[1] = 0
    stored[2] = 255
    for offset in offsets:
        at = slice(offset, offset + 2)
        stored[1, at] = stored[2, at] = keep[1, at]
        stored[3, at] = (-keep[3, at].view(np.float16)).view(np.uint8)
        stored[4, at] = np.array([2e-6], dtype=np.float16).view(np.uint8)
