"""Which inputs are recorded: demos, recordings of the repository, captures where there are any."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support.places import CAPTURES, RECORDINGS

from .running import printed

NOT_NODES = {"README.md", "drawing.txt", "relations.txt", "cases.json"}
LOG_FOLDERS = {"nccl-logs", "rccl-logs", "nccl-probe"}


@dataclass(frozen=True)
class Input:
    """One thing that the commands are run on."""

    name: str
    """Names its folder in the record."""
    kind: str
    """"node", "topology" (an XML alone) or "log"."""
    options: tuple[str, ...]
    """What stands behind the command's name: --demo SHAPE, --from FILE, or the log itself."""


def inputs() -> Iterator[Input]:
    """All inputs, each with a name of its own."""
    for demo in (line.split()[0] for line in printed(["--demo"]).splitlines()[1:]):
        yield Input(f"demo/{demo}", "node", ("--demo", demo))
    yield from _nodes(RECORDINGS, "recordings")
    yield from _logs(RECORDINGS, "recordings")
    if CAPTURES.is_dir():
        yield from captured()


def _nodes(root: Path, prefix: str) -> Iterator[Input]:
    for folder in sorted(path for path in root.iterdir() if path.is_dir()):
        if folder.name in LOG_FOLDERS or folder.name == "amdsmi-signatures":
            continue
        name = f"{prefix}/{folder.name}"
        if not folder.name.endswith(("-public", "-topologies")):
            yield Input(f"{name}/all", "node", ("--from", str(folder)))
        for file in sorted(folder.iterdir()):
            if file.name in NOT_NODES or file.suffix == ".log":
                continue
            kind = "topology" if folder.name == "nccl-topologies" else "node"
            yield Input(f"{name}/{file.name}", kind, ("--from", str(file)))


def _logs(root: Path, prefix: str) -> Iterator[Input]:
    for file in sorted(root.rglob("*.log*")):
        yield Input(f"{prefix}/{file.relative_to(root)}", "log", (str(file),))


def captured() -> Iterator[Input]:
    for machine in ("hgx-h200-4gpu-vm", "hgx-h100-4gpu-vm"):
        folder = CAPTURES / machine
        yield Input(f"captures/{machine}/all", "node", ("--from", str(folder)))
        for name in ("nvml.json", "nvidia-smi-q.xml", "nvidia-smi-q-x.xml", "sysfs.tar.gz"):
            if (folder / name).exists():
                yield Input(f"captures/{machine}/{name}", "node", ("--from", str(folder / name)))
        for file in sorted(folder.glob("nccl-log-*.txt")):
            yield Input(f"captures/{machine}/{file.name}", "log", (str(file),))
    for pattern in ("nccl-2.28.9-emulated", "nccl-2.28.9-graph", "rccl-2.21.5-graph"):
        for file in sorted((CAPTURES / pattern / "topologies").glob("*.xml")):
            yield Input(f"captures/{pattern}/{file.name}", "topology", ("--from", str(file)))
    for file in sorted((CAPTURES / "nccl-2.28.9-emulated" / "logs").iterdir()):
        yield Input(f"captures/emulated-logs/{file.name}", "log", (str(file),))
    for file in sorted((CAPTURES / "real-faults").glob("*.txt")):
        yield Input(f"captures/real-faults/{file.name}", "log", (str(file),))
