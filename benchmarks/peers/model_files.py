"""The model files that the table needs: the default model, random models, and conversions of both."""

import hashlib
import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

from participants import HERE, PEERS, RunFailed, installed

FOLDER = PEERS / "models"
SHAPES = ("llama-3.2-1b",)


@dataclass(frozen=True)
class ModelFiles:
    """One model in the forms that the engines read."""

    name: str
    tessera: Path  # what Tessera runs
    file: Path  # the GGUF file called "file" in the table, or None when Tessera's form is no GGUF
    source: Path  # what conversions are made from
    prefix: str  # path of a conversion up to its type
    is_pure: bool = False  # conversions give the embedding the type of the other matrices

    def gguf(self, kind):
        """The GGUF file of a type; "file" is the model as it came. "Q4_0-pure" is Q4_0 for all matrices,
        where llama-quantize would choose another type for the embedding and the head."""
        if kind == "file":
            if self.file is None:
                raise RunFailed(f"{self.name}: there is no GGUF file as shipped")
            return self.file
        target = Path(f"{self.prefix}{kind}.gguf")
        kind, _, suffix = kind.partition("-")
        return converted(self.source, target, kind, self.is_pure or suffix == "pure")


def _run(command, what):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RunFailed(f"{what}: exit status {done.returncode}\n{(done.stdout + done.stderr)[-2000:]}")
    return done.stdout


def converted(source, target, kind, pure=False, quantize=None):
    """`target`, made from `source` by llama-quantize when it is missing or older."""
    if target.exists() and target.stat().st_mtime >= source.stat().st_mtime:
        return target
    quantize = quantize or installed(PEERS / "bin" / "llama-quantize", "llama.cpp")
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_suffix(".unfinished")
    options = ["--allow-requantize"] + (["--pure"] if pure else [])
    try:
        _run([quantize, *options, source, unfinished, kind], f"converting {source.name} to {kind}")
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)
    return target


def from_file(path):
    """A GGUF file that every engine reads. The place tells its conversions from those of a namesake."""
    path = Path(path).resolve()
    place = hashlib.sha256(str(path).encode()).hexdigest()[:8]
    return ModelFiles(path.name, path, path, path, f"{FOLDER / path.stem}-{place}-")


def default_model(program):
    """Tessera's default model, downloaded when it is missing."""
    return from_file(json.loads(_run([program, "pull", "default", "--json"], "the default model"))["path"])


def random_model(shape):
    """A random model: affine 4-bit for Tessera, dense GGUF as the source of conversions."""
    folder = FOLDER / f"{shape}-random"
    if not (folder / "complete").exists():
        python = installed(PEERS / "mlx-lm" / "bin" / "python", "mlx-lm")
        _run([python, HERE / "random_model.py", "--shape", shape, "--output", folder], f"making the random {shape}")
        (folder / "complete").touch()
    return ModelFiles(f"{shape}, random weights", folder, None, folder / "dense.gguf", f"{folder}/", is_pure=True)
