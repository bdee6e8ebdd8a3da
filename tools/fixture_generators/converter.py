"""Makes the GGUF converter of benchmarks/peers importable here: its mapping exists once."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks" / "peers"))

import gguf_to_mlx  # noqa: E402,F401
