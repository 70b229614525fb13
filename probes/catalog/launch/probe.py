"""First use: what the first call costs against the steady state.

The first call loads libraries, creates contexts and compiles kernels, which looks like slowness. It
is measured in fresh interpreters, since this process has done all of it before. The files of torch
are then in the page cache already, so an import after a boot takes longer.
"""

import getpass
import importlib
import importlib.util
import json
import math
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

from ...devices.opened import Emit, open_torch_devices
from ...protocol.messages import DeviceRecord, MeasuredValue, Note, Progress, WorkerRequest
from ...protocol.plaintext import one_line
from ...protocol.quantity import Quantity
from ...protocol.sizing import GIB, MIB, spare_bytes, too_full
from ...protocol.spec import ProbeSpec, ProbeStopped, level_of
from ...protocol.status import DeviceKind
from ...runner.children import answers

FIRST_USE = Quantity(
    "first_use",
    "",
    unit="s",
    more_is_better=False,
    counted="time until the device is done",
    has_steady_state=True,
)
SPEC = ProbeSpec(
    name="launch",
    title="First use",
    measures=(
        "Seconds of the first import, context, kernel, matmul, attention and torch.compile in a "
        "fresh interpreter against the steady state, and what launching an empty kernel, or a "
        "layer forward and backward in eager PyTorch, costs."
    ),
    method="launch/1",
    minimum_gpus=1,
    memory_bytes_per_gpu=GIB,
    start_seconds=3.0,
    seconds_per_gpu=0.6,
    seconds_per_pair=0.0,
    seconds_alone=11.0,
    level_factors={"quick": 0.2, "normal": 1.0, "full": 1.3},
    host_memory_bytes=2 * GIB,
    loads=("host", "compute"),
    quantities=(FIRST_USE,),
)

_SCRIPT = Path(__file__).resolve().with_name("first_use.py")
_QUICK = ("import", "contexts", "kernel", "matmul", "empty", "layer")
_NORMAL = ("import", "contexts", "kernel", "matmul", "dtypes", "attention", "pinned", "empty",
           "layer", "graph")  # fmt: skip
_NOT_ON_A_CPU = ("contexts", "pinned", "layer", "graph", "matmul-everywhere")
_SECONDS, _SECONDS_PER_GPU = 60.0, 5.0
_COMPILE_SECONDS = 90.0
_NEEDED_BYTES = 512 * MIB
"""Memory for a context of the fresh interpreter and the code that it loads."""

# Finds the caches of compiled code in this environment, and whether they last.
#
# The defaults are those of the libraries: CUDA's programming guide (CUDA_CACHE_PATH), torch's
# inductor (runtime/cache_dir_utils.py) and jit kernels (jit_utils.cpp), Triton (knobs:
# TRITON_HOME), ROCm's comgr and MIOpen.
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


def run(request: WorkerRequest, emit: Emit) -> None:
    """Measure in fresh interpreters; ProbeStopped if one does not reach its end."""
    level = level_of(request.params)
    backend, devices = open_torch_devices(request, SPEC, emit)
    cpu = backend.kind == DeviceKind.CPU
    torch = importlib.import_module("torch")
    is_hip = getattr(torch.version, "hip", None) is not None
    if not cpu:
        _look_at_memory(devices, forced=request.params.get("force") is True)
    steps = [*(_QUICK if level == "quick" else _NORMAL)]
    if level == "full":
        steps.insert(steps.index("matmul") + 1, "matmul-everywhere")
    if cpu:
        steps = [step for step in steps if step not in _NOT_ON_A_CPU]
    first = _Fresh(devices, emit, cpu=cpu)
    total = len(steps) + (2 if level != "quick" else 0)
    emit(Progress(0, total, "a fresh interpreter imports torch"))
    first.measure(steps, os.environ, _SECONDS + _SECONDS_PER_GPU * len(devices), total)
    if level != "quick":
        _compile(first, request.params, emit, total)
        _note_caches(emit, is_hip=is_hip)
    emit(Progress(total, total, "all first uses measured"))


def _look_at_memory(devices: "Sequence[DeviceRecord]", *, forced: bool) -> None:
    if any(spare_bytes(device, forced=forced) < _NEEDED_BYTES for device in devices):
        raise too_full(devices, _NEEDED_BYTES, forced=forced)


class _Fresh:
    """Runs fresh interpreters and turns their answers into figures."""

    def __init__(self, devices: "Sequence[DeviceRecord]", emit: Emit, *, cpu: bool) -> None:
        self._keys = {device.index: device.key for device in devices}
        self.is_cpu = cpu
        self._emit = emit

    def measure(
        self, steps: "Sequence[str]", environment: "Mapping[str, str]", seconds: float, total: int,
        *, backend: str = "", only: "Optional[tuple[str, str]]" = None, done: int = 0,
        most_gpus: "Optional[int]" = None,
    ) -> None:  # fmt: skip
        """Report each answer as it comes; `only`: one variant and its name here."""
        plan = {
            "cpu": self.is_cpu, "indices": list(self._keys)[:most_gpus], "steps": list(steps),
            "backend": backend, "started": time.monotonic(),
        }  # fmt: skip
        command = [sys.executable, str(_SCRIPT), str(os.getpid()), json.dumps(plan)]
        for answer in answers(command, environment, seconds):
            variant = str(answer.get("variant", ""))
            if only is not None and variant != only[0]:
                continue
            self._emit(Progress(min(done, total), total, one_line(variant, 60)))
            done += 1
            self._report(answer, variant if only is None else only[1])

    def _report(self, answer: "dict[str, Any]", variant: str) -> None:
        seconds, why, details = answer.get("seconds"), answer.get("why"), answer.get("details")
        if not isinstance(seconds, float) or not math.isfinite(seconds):
            seconds, why = None, why or "the fresh interpreter gave no time"
        key = self._keys.get(answer.get("index", -1), "")
        where = f" on {key}" if key else ""
        self._emit(
            MeasuredValue(
                name=FIRST_USE.key,
                src=key,
                dst="",
                method=SPEC.method,
                device_kind=DeviceKind.CPU if self.is_cpu else DeviceKind.GPU,
                engine="torch in a fresh interpreter",
                direction=f"{one_line(variant, 60)}{where}, the first time in its process",
                value=seconds,
                unit=FIRST_USE.unit,
                why=one_line(str(why), 300) if why else None,
                minimum=seconds,
                maximum=seconds,
                samples=() if seconds is None else (seconds,),
                variant=one_line(variant, 60),
                counted=FIRST_USE.counted,
                details=details if isinstance(details, dict) else {},
            )
        )


def _compile(fresh: _Fresh, params: "Mapping[str, Any]", emit: Emit, total: int) -> None:
    """Time torch.compile of a tiny function with an empty, then with a full cache.

    `compile_backend` replaces inductor in the self-test.
    """
    folder, backend = params.get("folder"), params.get("compile_backend", "inductor")
    if backend == "inductor" and importlib.util.find_spec("triton") is None:
        emit(Note("compile", "torch.compile was not tried: this Python has no Triton."))
        return
    if not isinstance(folder, str) or not os.path.isdir(folder):
        emit(Note("compile", "torch.compile was not tried: no private folder was made for it."))
        return
    place = tempfile.mkdtemp(prefix="compile-", dir=folder)
    environment = {
        **os.environ,
        "TORCHINDUCTOR_CACHE_DIR": os.path.join(place, "inductor"),
        "TRITON_CACHE_DIR": os.path.join(place, "triton"),
        "TMPDIR": place,
        # No pool of compilers: it would outlive the first call for a single function.
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
    }
    before = ["import", "contexts", "kernel", "compile"]
    steps = [step for step in before if step != "contexts" or not fresh.is_cpu]
    try:
        for place_in_order, cache in enumerate(("empty cache", "full cache")):
            done = total - 2 + place_in_order
            emit(Progress(done, total, f"torch.compile, {cache}"))
            named = ("torch.compile", f"torch.compile, {cache}")
            try:
                fresh.measure(
                    steps, environment, _COMPILE_SECONDS, total, backend=str(backend), only=named,
                    done=done, most_gpus=1,
                )  # fmt: skip
            except ProbeStopped as stop:
                # Keep what was measured before, even if this fails.
                emit(Note("compile", f"torch.compile, {cache}: {stop}"))
                return
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _note_caches(emit: Emit, *, is_hip: bool) -> None:
    """Note where compiled code is cached, and whether it will be there next time."""
    found = caches(os.environ, is_hip=is_hip)
    listed = [
        {"what": c.what, "variable": c.variable, "path": c.path, "set": c.is_set,
         "exists": c.exists, "filesystem": c.filesystem, "ephemeral": c.ephemeral is not None,
         "off": c.off}
        for c in found
    ]  # fmt: skip
    emit(Note("caches", "\n".join(cache.line for cache in found), {"caches": listed}))
