"""Finds the caches of compiled code in this environment, and whether they last.

The defaults are those of the libraries: CUDA's programming guide (CUDA_CACHE_PATH), torch's
inductor (runtime/cache_dir_utils.py) and jit kernels (jit_utils.cpp), Triton (knobs: TRITON_HOME),
ROCm's comgr and MIOpen.
"""

import getpass
import os
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

_MOUNTS = Path("/proc/self/mountinfo")
_EPHEMERAL = {
    "tmpfs": "in memory, gone with a restart",
    "ramfs": "in memory, gone with a restart",
    "overlay": "a container's own layer, gone with the container",
    "aufs": "a container's own layer, gone with the container",
}
_OFF = {
    "CUDA_CACHE_PATH": "CUDA_CACHE_DISABLE",
    "TORCHINDUCTOR_CACHE_DIR": "TORCHINDUCTOR_FORCE_DISABLE_CACHES",
}
"""Variable of a cache's path -> variable that switches the cache off when it is 1."""


@dataclass(frozen=True)
class CodeCache:
    """One cache of compiled code."""

    what: str
    variable: str
    path: str
    is_set: bool
    """Whether the variable is set; else the path is the library's default."""
    exists: bool
    filesystem: Optional[str]
    """Type of the file system as the kernel names it; None where it cannot be read."""
    off: Optional[str]
    """The variable that switches this cache off, if it is set."""

    @property
    def ephemeral(self) -> Optional[str]:
        """Why the cache will be gone next time; None if it seems to last."""
        return _EPHEMERAL.get(self.filesystem or "")

    @property
    def line(self) -> str:
        """For people."""
        words = [self.variable if self.is_set else f"default, {self.variable} is not set"]
        if self.filesystem is not None:
            words.append(self.filesystem)
        if self.ephemeral is not None:
            words.append(self.ephemeral)
        if not self.exists:
            words.append("empty so far")
        if self.off is not None:
            words.append(f"switched off by {self.off}")
        return f"{self.what}: {self.path} ({'; '.join(words)})"


def caches(
    environment: Mapping[str, str], *, is_hip: bool, mounts: Optional[str] = None
) -> "tuple[CodeCache, ...]":
    """The caches that a first call may fill; `mounts`: the text of /proc/self/mountinfo."""
    home = environment.get("HOME") or os.path.expanduser("~")
    cache_home = environment.get("XDG_CACHE_HOME") or os.path.join(home, ".cache")
    triton_home = environment.get("TRITON_HOME") or home
    try:
        user = re.sub(r"[\\/:*?\"<>|]", "_", getpass.getuser())
    except (KeyError, OSError):
        user = str(os.getuid())
    inductor = os.path.join(tempfile.gettempdir(), f"torchinductor_{user}")
    known = [
        ("torch.compile", "TORCHINDUCTOR_CACHE_DIR", inductor),
        ("Triton kernels", "TRITON_CACHE_DIR", os.path.join(triton_home, ".triton", "cache")),
        ("torch's jit kernels", "PYTORCH_KERNEL_CACHE_PATH", f"{cache_home}/torch/kernels"),
    ]
    if is_hip:
        known += [
            ("ROCm's compiler", "AMD_COMGR_CACHE_DIR", f"{cache_home}/comgr"),
            ("MIOpen", "MIOPEN_CUSTOM_CACHE_DIR", f"{cache_home}/miopen"),
        ]
    else:
        known.insert(0, ("CUDA's PTX", "CUDA_CACHE_PATH", f"{home}/.nv/ComputeCache"))
    if mounts is None:
        try:
            mounts = _MOUNTS.read_text()
        except OSError:
            mounts = ""
    table = _mount_points(mounts)
    found = []
    for what, variable, default in known:
        path = environment.get(variable) or default
        off = _OFF.get(variable, "")
        is_off = environment.get(off) == "1"
        found.append(
            CodeCache(
                what, variable, path, bool(environment.get(variable)), os.path.isdir(path),
                _filesystem(path, table), off if is_off else None,
            )
        )  # fmt: skip
    return tuple(found)


def _mount_points(text: str) -> "dict[str, str]":
    """Mount point to type; a later mount hides an earlier one."""
    points = {}
    for line in text.splitlines():
        left, _, right = line.partition(" - ")
        fields, kind = left.split(" "), right.split(" ")[0]
        if len(fields) > 4 and kind:
            points[re.sub(r"\\([0-7]{3})", lambda m: chr(int(m[1], 8)), fields[4])] = kind
    return points


def _filesystem(path: str, points: "dict[str, str]") -> Optional[str]:
    place = os.path.realpath(path)
    while place not in points:
        above = os.path.dirname(place)
        if above == place:
            return None
        place = above
    return points[place]
