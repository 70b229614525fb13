"""Where ROCm's libraries lie outside the folders of the loader."""

import glob
import importlib.util
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

_SYSTEM = Path("/opt")


def folders(
    environment: Mapping[str, str] = os.environ, system: Path = _SYSTEM
) -> "Iterator[Path]":
    """Folders of libraries, best first: this machine's ROCm, then what a Python brings."""
    for name in ("ROCM_PATH", "HIP_PATH"):
        yield from (place / "lib" for place in _absolute(environment.get(name, "")))
    yield from below(system, "rocm*/lib")
    for packages in _packages(environment):
        yield from below(packages, "torch/lib")
        yield from below(packages, "_rocm_sdk*/lib")
    yield from (place / "lib" for place in _absolute(environment.get("CONDA_PREFIX", "")))


def below(folder: Path, pattern: str) -> "list[Path]":
    """The paths below a folder that match, sorted; none where this user may not look into it.

    PATH and its like may name another user's folders, over which pathlib fails before Python 3.14.
    """
    return [Path(name) for name in sorted(glob.glob(f"{glob.escape(str(folder))}/{pattern}"))]


def _packages(environment: Mapping[str, str]) -> "Iterator[Path]":
    """Folders of packages: with this Python's torch, of the active environment, of PATH."""
    try:
        spec = importlib.util.find_spec("torch")
    except (ImportError, ValueError):
        spec = None
    if spec is not None and spec.origin:
        yield Path(spec.origin).parent.parent
    prefixes = [
        *_absolute(environment.get("VIRTUAL_ENV", "")),
        *_absolute(environment.get("CONDA_PREFIX", "")),
        *(
            folder.parent
            for folder in _absolute(environment.get("PATH", ""))
            if os.path.exists(folder / "python3")
        ),
    ]
    for prefix in dict.fromkeys(prefixes):
        yield from below(prefix, "lib/python3*/*-packages")


def _absolute(paths: str) -> "list[Path]":
    return [Path(path) for path in paths.split(os.pathsep) if os.path.isabs(path)]
