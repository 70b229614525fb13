"""Where ROCm's libraries lie: on the system, or beside the torch of this Python."""

import importlib.util
from collections.abc import Iterator
from pathlib import Path


def folders() -> Iterator[Path]:
    """Folders of libraries outside the loader's path, best first."""
    yield from sorted(Path("/opt").glob("rocm*/lib"))
    try:
        spec = importlib.util.find_spec("torch")
    except (ImportError, ValueError):
        return
    if spec is not None and spec.origin:
        torch = Path(spec.origin).parent
        yield torch / "lib"
        yield from sorted(torch.parent.glob("_rocm_sdk*/lib"))
