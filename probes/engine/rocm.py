"""Where ROCm's libraries lie outside the folders of the loader."""

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
    yield from sorted(system.glob("rocm*/lib"))
    for packages in _packages(environment):
        if (packages / "torch" / "lib").is_dir():
            yield packages / "torch" / "lib"
        yield from sorted(packages.glob("_rocm_sdk*/lib"))
    yield from (place / "lib" for place in _absolute(environment.get("CONDA_PREFIX", "")))


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
            if (folder / "python3").exists()
        ),
    ]
    for prefix in dict.fromkeys(prefixes):
        yield from sorted(prefix.glob("lib/python3*/*-packages"))


def _absolute(paths: str) -> "list[Path]":
    return [Path(path) for path in paths.split(os.pathsep) if os.path.isabs(path)]
