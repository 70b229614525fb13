"""The command lines that are run on an input."""

from __future__ import annotations

import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path

from .inputs import Input
from .running import printed

FORMATS = ("matrix", "tree", "dot", "graphml", "svg", "nccl-xml", "json")
FLAGS = (
    "NCCL_P2P_LEVEL",
    "NCCL_P2P_DISABLE",
    "NCCL_SHM_DISABLE",
    "NCCL_NVLS_ENABLE",
    "NCCL_ALGO",
    "NCCL_PROTO",
    "NCCL_MIN_NCHANNELS",
    "NCCL_MAX_NCHANNELS",
    "NCCL_NET_GDR_LEVEL",
    "NCCL_NET_GDR_READ",
    "NCCL_IB_HCA",
    "NCCL_IB_DISABLE",
    "NCCL_SOCKET_IFNAME",
    "NCCL_CROSS_NIC",
    "NCCL_CUMEM_ENABLE",
    "NCCL_TOPO_FILE",
    "NCCL_DEBUG",
    "NCCL_BUFFSIZE",
    "NCCL_NTHREADS",
    "NCCL_PXN_DISABLE",
    "NCCL_HOSTID",
    "NCCL_NET",
    "RCCL_MSCCL_ENABLE",
    "HSA_FORCE_FINE_GRAIN_PCIE",
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
    "CUDA_LAUNCH_BLOCKING",
    "TORCH_NCCL_ASYNC_ERROR_HANDLING",
    "NCCL_NO_SUCH_FLAG",
    "NVIDIA_VISIBLE_DEVICES",
)
WHAT_IF = ("--set", "NCCL_P2P_DISABLE=1", "--set", "NCCL_ALGO=Ring")

DEMO_COMMANDS = (
    ("jobs",),
    ("jobs", "--json"),
    ("explain", "--against", "2.30.3"),
    ("explain", "--against", "2.30.3", "--json"),
    ("explain", "--nodes", "4"),
    ("probe",),
    ("probe", "--json"),
    ("probe", "--list"),
    ("probe", "--list", "--json"),
    ("check", "--full", "-v"),
    ("check", "--full", "--json"),
)
"""What can be asked of a demo only: it has processes and simulated measurements."""


def commands(given: Input) -> Iterator[tuple[str, ...]]:
    """All command lines for one input, each without the program's name."""
    if given.kind == "log":
        yield ("log", *given.options)
        yield ("log", *given.options, "--json")
        return
    for words in _node_commands(given):
        yield (*words, *given.options)
    if given.options[0] == "--demo":
        for words in DEMO_COMMANDS:
            yield (*words, *given.options)


def plain_commands() -> Iterator[tuple[str, ...]]:
    """Command lines that look at no node."""
    yield ("--help",)
    yield ("--demo",)
    for name in ("snapshot", "topo", "explain", "flags", "probe", "check", "log"):
        yield (name, "--help")
    for name in ("jobs", "fleet", "completion", "doctor"):
        yield (name, "--help")
    yield ("probe", "net", "--help")
    yield ("fleet", "plan", "--help")
    yield ("fleet", ".", "--help")
    for shell in ("bash", "zsh", "fish"):
        yield ("completion", shell)
    folder = fleet()
    for words in ((), ("-v",), ("--json",)):
        yield ("fleet", folder, *words)
    yield ("fleet", "plan", folder)
    yield ("fleet", "plan", folder, "--json")
    yield ("check", "--list")
    yield ("check", "--list", "--json")
    yield ("flags", "--all", "--demo", "hgx-h100-8")
    yield ("flags", "--all", "--json", "--demo", "hgx-h100-8")
    yield ("flags", "--search", "network", "--demo", "mi300x-8")
    yield ("check", "--expect", "no-such-shape", "--demo", "hgx-h100-8")
    for shape in ("dgx-h100", "mi300x-8"):
        yield ("check", "--quick", "-v", "--expect", shape, "--demo", "sick-h100-8")


def fleet() -> str:
    """Write what `gputop check` says of demos into a folder, as a fleet's nodes do."""
    folder = Path(tempfile.gettempdir(), "gputop-recorded-fleet")
    folder.mkdir(exist_ok=True)
    for demo in ("hgx-h100-8", "sick-h100-8", "hgx-a100-8", "mi300x-8", "sick-mi300x-8"):
        for number in (1, 2):
            path = folder / f"{demo}-{number}.json"
            text = printed(["check", "--quick", "--json", "--demo", demo]).partition("\n")[2]
            document = text.partition("--- stderr")[0]
            named = document.replace(': "demo"', f': "{path.stem}"')
            path.write_text(named, encoding="utf-8")
    return str(folder)


def _node_commands(given: Input) -> Iterator[tuple[str, ...]]:
    for name in FORMATS:
        yield ("topo", "--format", name)
    yield ("topo", "--json")
    for words in (("explain",), ("explain", "0", "1"), ("flags",), ("check", "--quick")):
        yield words
        yield (*words, "--json")
    yield ("check", "--quick", "-v")
    yield ("explain", *WHAT_IF)
    yield ("explain", *WHAT_IF, "--json")
    yield ("explain", "--nccl", "2.19.3", "--nodes", "2", "--json")
    yield ("snapshot",)
    yield ("snapshot", "--redact")
    if given.kind == "node":
        names: tuple[str, ...] = FLAGS
    else:
        # One prediction per value makes these the dearest: each file gets three names of its own.
        first = zlib.crc32(given.name.encode()) % len(FLAGS)
        names = tuple(FLAGS[(first + step * 7) % len(FLAGS)] for step in range(3))
    for name in names:
        yield ("flags", name)
        yield ("flags", name, "--json")
    yield ("flags", *WHAT_IF[:2])
    yield ("flags", *WHAT_IF[:2], "--json")
