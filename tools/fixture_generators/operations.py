"""Operations of MLX in float32, each beside the same formula evaluated in float64."""

import mlx.core as mx
import numpy as np
from mlx_lm.models.rope_utils import initialize_rope

from .files import write_safetensors

BITS = [2, 3, 4, 5, 6, 8]
GROUP_SIZES = [32, 64]


def _random(rng, *shape):
    return rng.standard_normal(shape, dtype=np.float32)


def _write(root, name, **tensors):
    tensors = {k: np.ascontiguousarray(v) for k, v in tensors.items()}
    write_safetensors(root / "operations" / f"{name}.safetensors", tensors)


def _rms_norm(root, rng):
    x, weight = _random(rng, 5, 96), 1 + np.float32(0.2) * _random(rng, 96)
    x[3] *= np.float32(1e-3)  # here eps matters
    x[4] = 0
    eps = np.float32(1e-5)
    wide = x.astype(np.float64)
    exact = wide / np.sqrt((wide**2).mean(-1, keepdims=True) + np.float64(eps)) * weight
    y = np.array(mx.fast.rms_norm(mx.array(x), mx.array(weight), float(eps)))
    _write(root, "rms_norm", x=x, weight=weight, eps=np.array([eps]), y=y, y_exact=exact.astype(np.float32))


def _rotated(x, angles):
    """Half-split rotation in float64; angles [length, head_dim / 2]."""
    first, second = np.split(x.astype(np.float64), 2, axis=-1)
    cos, sin = np.cos(angles), np.sin(angles)
    return np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)


def _rope(root, rng):
    x = _random(rng, 1, 3, 7, 16)  # batch, heads, positions, head_dim
    dims, base = x.shape[-1], 10000.0
    llama3 = {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64,
    }
    for name, scaling in (
        ("default", None),
        ("linear", {"rope_type": "linear", "factor": 4.0}),
        ("llama3", llama3),
    ):
        rope = initialize_rope(dims, base, False, scaling, 512)
        wavelengths = base ** (np.arange(0, dims, 2) / dims)  # radians per position, inverted
        if name == "linear":
            wavelengths = wavelengths * 4.0
        if name == "llama3":
            wavelengths = np.array(rope._freqs).astype(np.float64)
        tensors = {"x": x, "base": np.array([base], dtype=np.float32), "frequencies": (1 / wavelengths).astype(np.float32)}
        for offset in (0, 61):
            positions = np.arange(offset, offset + x.shape[2])[:, None]
            tensors[f"y_offset_{offset}"] = np.array(rope(mx.array(x), offset=offset))
            tensors[f"y_exact_offset_{offset}"] = _rotated(x, positions / wavelengths).astype(np.float32)
        _write(root, f"rope_{name}", **tensors)


def _quantized(root, rng):
    for bits in BITS:
        for group_size in GROUP_SIZES:
            dense = _random(rng, 40, 256)
            dense[1, :group_size] = 0  # a constant group
            dense[2, :group_size] = np.float32(0.75)
            codes, scales, biases = mx.quantize(mx.array(dense), group_size, bits)
            rows = np.array(mx.dequantize(codes, scales, biases, group_size, bits))
            x = _random(rng, 5, 256)
            y = mx.quantized_matmul(mx.array(x), codes, scales, biases, True, group_size, bits)
            x_back = _random(rng, 3, 40)
            y_back = mx.quantized_matmul(mx.array(x_back), codes, scales, biases, False, group_size, bits)
            exact = x.astype(np.float64) @ rows.astype(np.float64).T
            ids = np.array([0, 39, 1, 7, 7], dtype=np.int32)
            _write(
                root,
                f"quantized_b{bits}_g{group_size}",
                dense=dense,
                w=np.array(codes),
                scales=np.array(scales),
                biases=np.array(biases),
                dequantized=rows,
                x=x,
                y=np.array(y),
                y_exact=exact.astype(np.float32),
                x_untransposed=x_back,
                y_untransposed=np.array(y_back),
                ids=ids,
                embedding=rows[ids],
            )


def make(root, seed=401):
    rng = np.random.Generator(np.random.PCG64(seed))
    _rms_norm(root, rng)
    _rope(root, rng)
    _quantized(root, rng)
    return {"seed": seed}
