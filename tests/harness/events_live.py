"""What a real node lets an ordinary user hear of events, and what asking costs; under 40 s.

`python -m tests.harness.events_live [--fault]` prints one line for each fact. With --fault a small
program of ours reads an address that is not mapped (Xid 31 or 13 of its own context, which ends
with it): whoever listens has to hear it once, by NVML or by the kernel's log.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from gputop.topology.model.source import SourceAbsent
from gputop.topology.sources.files.tree import live_tree
from gputop.topology.sources.linux import counters, kernel_log
from gputop.topology.sources.nvidia import nvml_events
from gputop.topology.sources.nvidia.library import open_library

FOLLOW_SECONDS = 15.0
PTX = b""".version 6.0
.target sm_50
.address_size 64
.visible .entry fault()
{
 .reg .u64 %a;
 .reg .u32 %v;
 mov.u64 %a, 0x10;
 ld.global.u32 %v, [%a];
 st.global.u32 [%a], %v;
 ret;
}
\0"""
CRASH = f"""
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
device, context, module, function = (ctypes.c_void_p() for _ in range(4))
number = ctypes.c_int()
print(cuda.cuInit(0), cuda.cuDeviceGet(ctypes.byref(number), 0))
print(cuda.cuCtxCreate_v2(ctypes.byref(context), 0, number))
print(cuda.cuModuleLoadData(ctypes.byref(module), {PTX!r}))
print(cuda.cuModuleGetFunction(ctypes.byref(function), module, b"fault"))
print(cuda.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, None, None))
print("ended with", cuda.cuCtxSynchronize())
"""
"""A program of ours whose kernel reads address 16."""


def timed(work: Callable[[], Any]) -> tuple[Any, float, float]:
    """What it gives, and its milliseconds by the wall and of the processor."""
    wall, used = time.perf_counter(), time.process_time()
    found = work()
    return found, (time.perf_counter() - wall) * 1e3, (time.process_time() - used) * 1e3


def say(what: str, value: object) -> None:
    """One fact a line."""
    print(f"{what:34} {value}", flush=True)


def of_logs() -> None:
    """The kernel's log and the journal, as this user."""
    say("user", os.geteuid())
    for name in ("dmesg_restrict", "printk"):
        path = Path("/proc/sys/kernel") / name
        say(name, path.read_text().strip() if path.exists() else "no such file")
    reader = kernel_log.KernelLogReader()
    try:
        raw, wall, used = timed(reader)
    except SourceAbsent as absent:
        say("kernel log", f"absent: {absent}")
    else:
        which = "journal" if reader.again_seconds else "/dev/kmsg"
        say("kernel log", f"{which}: {len(raw['lines'])} lines, {wall:.1f} ms, CPU {used:.1f} ms")
        found = kernel_log.parse(raw).kernel_events or ()
        say("events in it", Counter(f"{one.kind} {one.code}" for one in found).most_common(9))


def of_counters() -> None:
    """Counters in /sys: how many, how many above 0, and what reading costs."""
    reader = counters.CountersReader(live_tree())
    for turn in ("first", "second"):
        raw, wall, used = timed(reader)
        say(f"counters, {turn} reading", f"{wall:.1f} ms, CPU {used:.1f} ms")
    found = counters.parse(raw).counters or ()
    say("devices with counters", Counter(str(one.kind) for one in found))
    for one in found:
        say(f"  {one.kind} {one.device}", dict(one.counts) or "all 0")


def of_nvml() -> None:
    """Event sets and what is newer, as the driver has them."""
    try:
        library = open_library()
    except SourceAbsent as absent:
        say("NVML", f"absent: {absent}")
        return
    say("driver", library.ask("nvmlSystemGetDriverVersion"))
    reader = nvml_events.NvmlEventsReader()
    for turn in ("first", "second"):
        raw, wall, used = timed(reader)
        say(f"NVML events, {turn} reading", f"{wall:.1f} ms, CPU {used:.1f} ms")
    for name in ("listening", "refused", "operational", "events"):
        say(f"  {name}", raw[name])
    for index in range(int(library.ask("nvmlDeviceGetCount") or 0)):
        handle = library.handle("nvmlDeviceGetHandleByIndex", index)
        mask = library.ask("nvmlDeviceGetSupportedEventTypes", handle)
        say(f"  GPU{index} supports", hex(mask) if isinstance(mask, int) else mask)
        for port in range(3):
            say(f"  GPU{index} PRM of port {port}", _prm(library.binding, handle, port))


def _prm(binding: Any, handle: object, port: int) -> object:
    """The count of recoveries of a port by the PRM counters, or why there is none."""
    try:
        asked = binding.c_nvmlPRMCounter_v1_t.__new__(binding.c_nvmlPRMCounter_v1_t)
        asked.counterId = (
            binding.NVML_PRM_COUNTER_ID_PPCNT_RECOVERY_CTRS_TOTAL_SUCCESSFUL_RECOVERY_EVENTS
        )
        asked.inputValue.localPort = port
        several = (binding.c_nvmlPRMCounter_v1_t * 1)(asked)
        listed = binding.c_nvmlPRMCounterList_v1_t(1, several)
        binding.nvmlDeviceReadPRMCounters_v1(handle, listed)
    except (AttributeError, TypeError, binding.NVMLError) as error:
        return f"{type(error).__name__}: {error}"
    value = several[0].outputValue
    return f"status {value.status}, {value.outputValue.ullVal}"


def of_commands(*, fault: bool) -> None:
    """The commands as somebody runs them."""
    start = time.perf_counter()
    done = subprocess.run(_events("--json"), capture_output=True, text=True, check=False)
    took = time.perf_counter() - start
    say("gputop events --json", f"code {done.returncode}, {took:.2f} s")
    if done.stdout.startswith("{"):
        said = json.loads(done.stdout)
        for part in ("answer", "unread"):
            say(f"  {part}", said[part])
        say("  events, counters", (len(said["events"]), len(said["counted"])))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    for line in _followed(fault):
        say("  follow", line)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    say("gputop events --follow", f"CPU {used:.2f} s in {FOLLOW_SECONDS:.0f} s, start included")


def _events(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "gputop", "events", *arguments]


def _followed(fault: bool) -> Iterator[str]:
    with subprocess.Popen(
        _events("--follow", "--interval", "1"), stdout=subprocess.PIPE, text=True
    ) as follow:
        killer = threading.Timer(FOLLOW_SECONDS, follow.terminate)
        killer.start()
        if fault:
            threading.Timer(7.0, _crash).start()
        yield from (line.rstrip() for line in follow.stdout or ())


def _crash() -> None:
    done = subprocess.run(
        [sys.executable, "-c", CRASH], capture_output=True, text=True, check=False, timeout=20
    )
    say("a program that crashed", " ".join(done.stdout.split()) or done.stderr[-200:])


def main() -> None:
    """Ask everything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fault", action="store_true")
    asked = parser.parse_args()
    start = time.perf_counter()
    of_logs()
    of_counters()
    of_nvml()
    of_commands(fault=asked.fault)
    say("all of it", f"{time.perf_counter() - start:.1f} s")


if __name__ == "__main__":
    main()
