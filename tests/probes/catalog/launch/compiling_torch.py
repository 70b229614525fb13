"""A made-up torch for fresh interpreters; it keeps what it compiled, as inductor does."""

from __future__ import annotations

from pathlib import Path

_TORCH = """
import os

float16 = float32 = bfloat16 = None


class Numbers:
    def add_(self, other):
        return self

    fill_ = __add__ = __mul__ = __matmul__ = add_


def empty(*shape, **more):
    return Numbers()


zeros = sin = empty


def compile(function, backend):
    def compiled(numbers):
        folder = os.environ["TORCHINDUCTOR_CACHE_DIR"]
        if not done:
            with open(os.environ["SEEN"], "a") as seen:
                seen.write(f"{backend}, {os.path.exists(folder)}\\n")
            os.makedirs(folder, exist_ok=True)
            done.append(True)
        return function(numbers)

    done = []
    return compiled
"""
_FUNCTIONAL = "def scaled_dot_product_attention(*all, is_causal): pass"


def made_torch(folder: Path) -> Path:
    """Write it below this folder, which has to stand in PYTHONPATH.

    Each first call adds a line to the file SEEN: the backend, and whether the cache was there.
    """
    (folder / "torch" / "nn").mkdir(parents=True)
    (folder / "torch" / "__init__.py").write_text(_TORCH)
    (folder / "torch" / "nn" / "functional.py").write_text(_FUNCTIONAL)
    return folder
