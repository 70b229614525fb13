"""Published figures, the texts that describe their machines, and what gputop states of them.

A machine is given by the texts that a person has at hand: `nvidia-smi topo -m`, `nvidia-smi -L`
and `lscpu`; any subset of them may be left out.
"""

from __future__ import annotations

import tempfile
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

from gputop.topology.expectation.calls.kinds import CollectiveKind
from gputop.topology.expectation.calls.times import CallTime, TimesOfCalls
from gputop.topology.expectation.collectives import COLLECTIVES
from gputop.topology.expectation.cost.costs import costs_of
from gputop.topology.expectation.domains import domain_of
from gputop.topology.expectation.judge import Judge
from gputop.topology.expectation.judgement import TOO_HIGH
from gputop.topology.hardware.specs import LOOK
from gputop.topology.model import quantities
from gputop.topology.model.snapshot import Measurement, NodeSnapshot
from gputop.topology.nccl.decide.predict import predict
from gputop.topology.nccl.hosts.bound import all_reduce_gbs
from gputop.topology.nccl.hosts.equal_hosts import predict_hosts
from gputop.topology.nccl.settings import Settings
from gputop.topology.node import Node
from gputop.topology.recorded.load import load
from gputop.topology.toml import tomllib

from ...support.rule_cases import base

FILE = Path(__file__).parent / "published.toml"
RECORD = FILE.with_suffix(".record")
"""Written by `python -m tests.topology.explain.published`."""
CALLS = {f"{kind.replace('-', '_')}_busbw": kind for kind in CollectiveKind}
TEXTS = ("topo", "list", "cpu")
MIB, LARGE = 1 << 20, 1 << 30


@cache
def everything() -> dict[str, Any]:
    """The file: sources, machines, figures."""
    return tomllib.loads(FILE.read_text(encoding="utf-8"))


def machine_of(figure: dict[str, Any]) -> dict[str, Any]:
    """The machine of a figure."""
    return next(one for one in everything()["machine"] if one["id"] == figure["machine"])


def name_of(figure: dict[str, Any]) -> str:
    """One name for a figure: no two have the same."""
    parts = (
        figure["machine"], figure["quantity"], figure.get("gpus", ""), figure.get("hosts", ""),
        figure["size"], figure.get("src", ""), figure.get("dst", ""), figure.get("settings", ""),
        figure["source"],
    )  # fmt: skip
    return " ".join(map(str, filter(lambda part: part != "", parts)))


def texts_of(machine: dict[str, Any]) -> dict[str, str]:
    """The texts of a machine, by name; none of a demo."""
    if "demo" in machine:
        return {}
    layout = machine["layout"]
    count = 1
    for size, _ in layout:
        count *= size
    found = {"topo": _matrix(layout, count), "list": _listed(machine["gpu"], count)}
    if "cpu" in machine:
        found["cpu"] = _lscpu(machine["cpu"], len(_sockets(layout, count)))
    return found


def subsets(texts: dict[str, str]) -> list[tuple[str, ...]]:
    """All texts first, then every smaller choice of them that is not empty."""
    names = [name for name in TEXTS if name in texts]
    return [few for size in range(len(names), 0, -1) for few in combinations(names, size)]


def snapshot_of(machine: dict[str, Any], names: tuple[str, ...] | None = None) -> NodeSnapshot:
    """The machine as these texts have it; all of them without `names`."""
    if "demo" in machine:
        return base(f"demo {machine['demo']}")
    texts = texts_of(machine)
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{name}.txt" for name in names or texts]
        for path in paths:
            path.write_text(texts[path.stem], encoding="utf-8")
        return load([str(path) for path in paths]).snapshot


def _relation(layout: list[list[Any]], one: int, other: int) -> str:
    size = 1
    for count, letters in layout:
        size *= count
        if one // size == other // size:
            return str(letters)
    raise AssertionError((one, other))


def _sockets(layout: list[list[Any]], count: int) -> dict[int, int]:
    """The sockets of a layout, each with its first GPU: GPUs that are SYS apart differ in it."""
    found: dict[int, int] = {}
    for gpu in range(count):
        if all(_relation(layout, gpu, first) == "SYS" for first in found.values()):
            found[len(found)] = gpu
    return found


def _matrix(layout: list[list[Any]], count: int) -> str:
    sockets = _sockets(layout, count)
    names = [f"GPU{number}" for number in range(count)]
    lines = ["\t" + "\t".join(names) + "\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID"]
    for one in range(count):
        cells = [" X " if one == two else _relation(layout, one, two) for two in range(count)]
        numa = next(
            node
            for node, first in sockets.items()
            if one == first or _relation(layout, one, first) != "SYS"
        )
        cpus = f"{numa * 32}-{numa * 32 + 31}"
        lines.append("\t".join([names[one], *cells, cpus, str(numa), "N/A"]))
    return "\n".join([*lines, "", "Legend:", "", "  X    = Self", ""])


def _listed(gpu: str, count: int) -> str:
    row = "GPU {n}: {gpu} (UUID: GPU-00000000-0000-0000-0000-{n:012})"
    return "".join(row.format(n=number, gpu=gpu) + "\n" for number in range(count))


def _lscpu(cpu: dict[str, Any], sockets: int) -> str:
    nodes = "".join(f"NUMA node{n} CPU(s): {n * 32}-{n * 32 + 31}\n" for n in range(sockets))
    return (
        f"Architecture:        x86_64\nCPU(s):              {32 * sockets}\n"
        f"Vendor ID:           {cpu['vendor']}\nModel name:          {cpu['name']}\n"
        f"CPU family:          {cpu['family']}\nModel:               {cpu['model']}\n"
        f"Socket(s):           {sockets}\nNUMA node(s):        {sockets}\n{nodes}"
    )


def stated(figure: dict[str, Any], names: tuple[str, ...] | None = None) -> tuple[float, float]:
    """The band that gputop states of a figure, lowest and highest; (0, 0) where it states none."""
    snapshot = snapshot_of(machine_of(figure), names)
    settings = dict(word.split("=") for word in figure.get("settings", "").split())
    if figure.get("hosts", 1) > 1:
        return _of_hosts(snapshot, figure, settings)
    gpus = snapshot.machine.gpus
    whole = figure.get("gpus") == len(gpus)
    if figure["quantity"] == quantities.ALL_REDUCE and whole:
        return _of_node(snapshot, settings)
    if figure["quantity"] not in COLLECTIVES and figure["quantity"] in CALLS:
        return _of_call(snapshot, figure)
    details: dict[str, Any] = {"variables": settings}
    if "gpus" in figure:
        details["ranks"] = figure["gpus"]
    ends = {
        key: gpus[figure[key]].address
        for key in ("src", "dst")
        if key in figure and figure[key] < len(gpus)
    }
    found = Measurement(
        probe="published", quantity=figure["quantity"], bytes_per_copy=figure["size"] * MIB,
        details=details, **ends,
    )  # fmt: skip
    band = Judge(snapshot).expected(found).band
    return (0.0, 0.0) if band is None else (band.low, band.high)


def _of_call(snapshot: NodeSnapshot, figure: dict[str, Any]) -> tuple[float, float]:
    """What explain --collectives states of a collective that no probe measures."""
    gpus = [gpu.address for gpu in snapshot.machine.gpus[: figure["gpus"]]]
    times = TimesOfCalls(Node(snapshot).decide())
    return band_of(times.of(gpus, CALLS[figure["quantity"]], figure["size"] * MIB))


def band_of(call: CallTime | None) -> tuple[float, float]:
    """The bus bandwidths of a call, lowest and highest; (0, 0) for none."""
    if call is None:
        return 0.0, 0.0
    moved = call.busbw_gbs * call.us
    return moved / call.high_us, moved / call.low_us


def _of_node(snapshot: NodeSnapshot, settings: dict[str, str]) -> tuple[float, float]:
    """What explain states of an all-reduce over all GPUs."""
    made = predict(snapshot, Settings.of(snapshot, settings))
    cost = costs_of(Node(snapshot).with_prediction(made)).all_reduce
    if cost is None or cost.here is None:
        return 0.0, 0.0
    if cost.low is not None and cost.high is not None:
        return cost.low, cost.high
    return cost.here * LOOK, cost.here * TOO_HIGH


def _of_hosts(
    snapshot: NodeSnapshot, figure: dict[str, Any], settings: dict[str, str]
) -> tuple[float, float]:
    """What explain --nodes states of a collective."""
    found = predict_hosts(snapshot, Settings.of(snapshot, settings), hosts=figure["hosts"])
    if figure["quantity"] != quantities.ALL_REDUCE or found.failure:
        return 0.0, 0.0
    domain = domain_of(snapshot, Settings.of(snapshot, settings), found)
    if domain is not None:
        return domain.low, domain.high
    low, high = all_reduce_gbs(found)
    return low * LOOK, high * TOO_HIGH


def bands_of(
    machine: dict[str, Any], names: tuple[str, ...] | None = None
) -> dict[str, tuple[float, float]]:
    """Every band that gputop states of a machine: calls of all GPUs and of two, and verdicts."""
    snapshot = snapshot_of(machine, names)
    gpus = [gpu.address for gpu in snapshot.machine.gpus]
    if len(gpus) < 2:
        return {}
    times, judge = TimesOfCalls(Node(snapshot).decide()), Judge(snapshot)
    found = {
        f"{kind} of {len(some)}": band_of(times.of(some, kind, LARGE))
        for kind in CollectiveKind
        for some in (gpus, gpus[:2])
    }
    for quantity in COLLECTIVES:
        figure = Measurement(probe="published", quantity=quantity, bytes_per_copy=LARGE)
        band = judge.expected(figure).band
        found[quantity] = (0.0, 0.0) if band is None else (band.low, band.high)
    return found


def all_reduce_range(
    machine: dict[str, Any], names: tuple[str, ...] | None = None
) -> tuple[float, float]:
    """The range, or the one figure twice, of an all-reduce over all GPUs without settings.

    (0, 0) where these texts tell of no two GPUs.
    """
    snapshot = snapshot_of(machine, names)
    if len(snapshot.machine.gpus) < 2:
        return 0.0, 0.0
    made = predict(snapshot, Settings.of(snapshot))
    cost = costs_of(Node(snapshot).with_prediction(made)).all_reduce
    assert cost is not None
    assert cost.here is not None
    low, high = cost.low or cost.here, cost.high or cost.here
    assert low <= cost.here <= high
    return low, high


def outcome(figure: dict[str, Any]) -> str:
    """ "inside" the stated band, "outside", or "no figure"."""
    low, high = stated(figure)
    if not high:
        return "no figure"
    return "inside" if low <= figure["value"] <= high else "outside"


def record() -> dict[str, str]:
    """The outcome of every figure as it was last recorded, by name."""
    lines = RECORD.read_text(encoding="utf-8").splitlines()
    return {name: told for told, _, name in (line.partition(": ") for line in lines)}


if __name__ == "__main__":
    RECORD.write_text(
        "".join(f"{outcome(figure)}: {name_of(figure)}\n" for figure in everything()["figure"])
    )
