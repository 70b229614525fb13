"""What is mutated: sound files of every format, from the recordings and out of the demos."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from gputop.measuring.history import SavedFigure, SavedRun
from gputop.topology.toml import tomllib
from tests.harness.outputs.recording import MOMENTS
from tests.harness.outputs.running import printed
from tests.support.fleet_made import node, slower
from tests.support.model_files import CONFIGS
from tests.support.places import RECORDINGS, ROOT, TESTS

POLICY = b"""\
expect = "hgx-h100-8"

[ignore]
persistence-off = "our image loads the driver for every job"
pcie-width = "known since the move"

[thresholds.bar1-small]
minimum_share = 0.5
"""
ANALYSIS = """\
I1118 18:24:39.1 1234 builder.py:300]   Not all ranks joining collective, sequence number: 31117
internal record id: 4
group info: 0:default_pg
collective: nccl:all_reduce
missing ranks: {3, 4}
input sizes: [[3, 4]]
expected ranks: {0, 1, 2, 3, 4}
collective state: scheduled
collective stack trace:
 all_reduce at /srv/torch/distributed/distributed_c10d.py:2696
Collective sequence number: 12 has errors
group info: 1:mesh_tp
collective: nccl:_all_gather_base
error msg: Culprit rank 1; Error type: COLLECTIVE_TYPE_MISMATCH, Expected collective type: 'a'
"""
"""What torchfrtrace prints."""
_MOMENT = "1700000000.5"
_DEMOS = ("dgx-1v", "hgx-h100-8", "mi250x-8", "pcie-l40s-8", "sick-h100-8", "sick-mi300x-8")


@dataclass(frozen=True)
class Original:
    """A sound file, or several of one folder."""

    name: str
    files: dict[str, bytes]
    """Name -> content."""
    demo: str = ""
    """The demo of which it was made, if it was."""


@cache
def originals(form: str) -> tuple[Original, ...]:
    """All originals of a format, always in the same order."""
    return tuple(_FINDERS[form]())


def formats() -> tuple[str, ...]:
    """The names of all formats."""
    return tuple(_FINDERS)


def _recorded(*patterns: str) -> Callable[[], Iterator[Original]]:
    """Files of the recordings, each alone."""

    def found() -> Iterator[Original]:
        for pattern in patterns:
            for path in sorted(RECORDINGS.glob(pattern)):
                yield _file(path)

    return found


def _file(path: Path) -> Original:
    name = str(path.relative_to(RECORDINGS))
    return Original(name, {path.name: path.read_bytes()})


def _exported(name: str, *command: str) -> Iterator[Original]:
    """What a command prints of each demo, which --from reads again."""
    for demo in _DEMOS:
        text = printed([*command, "--demo", demo])
        content = text.removeprefix("exit 0\n").partition("--- stderr\n")[0]
        # Always of the same moment: the same numbers make the same inputs tomorrow.
        steady = MOMENTS.sub(rf"\g<1>{_MOMENT}", content)
        yield Original(f"{demo} {name}", {name: steady.encode()}, demo)


def _snapshots() -> Iterator[Original]:
    yield from _exported("snapshot.json", "snapshot")
    yield from _recorded("*/snapshot.json")()


def _checks() -> Iterator[Original]:
    """Files of checks, which hold the snapshot of their node."""
    yield from _exported("check.json", "check", "--quick", "--json", "--snapshot")


def _nccl_xml() -> Iterator[Original]:
    yield from _exported("system.xml", "topo", "--format", "nccl-xml")
    yield from _recorded("nccl-topologies/*.xml", "nccl-public/*.xml")()


def _matrices() -> Iterator[Original]:
    yield from _exported("topo-m.txt", "topo")
    yield from _recorded("*/*topo-m.txt", "nvidia-public/*.txt")()


def _unpacked_logs() -> Iterator[Original]:
    yield from _recorded("*/*.log")()
    for path in sorted(RECORDINGS.glob("nccl-*/*.log.gz")):
        yield Original(path.name, {path.stem: gzip.decompress(path.read_bytes())})


def _folders() -> Iterator[Original]:
    """Whole recordings: what one file says, another contradicts."""
    for name in ("hgx-h200-4gpu-vm", "amd-smi-mi300x-7", "hgx-h200-4gpu-live", "rocm-smi-mi250x"):
        paths = sorted((RECORDINGS / name).iterdir())
        yield Original(name, {path.name: path.read_bytes() for path in paths})


def _pasted() -> Iterator[Original]:
    """Outputs of tools as people paste them, and the small ones of the rules about them."""
    yield from _recorded("pasted/*")()
    texts = tomllib.loads((TESTS / "topology/diagnosis/hardware_texts.toml").read_text())["text"]
    for entry in texts:
        yield Original(entry["name"], {"paste.txt": entry["text"].encode()})


def _threads() -> Iterator[Original]:
    """What people posted, lines of logs and outputs of tools in any mixture."""
    for path in sorted((TESTS / "threads").rglob("*.txt")):
        if "round-3" not in path.parts:
            yield Original(f"{path.parent.name}/{path.name}", {path.name: path.read_bytes()})


def _policies() -> Iterator[Original]:
    yield Original("check.toml", {"check.toml": POLICY})


def _settings() -> Iterator[Original]:
    """Values of variables: no file, but as hostile."""
    values = {
        "NCCL_P2P_LEVEL": b"PIX",
        "NCCL_ALGO": b"allreduce:ring,tree;broadcast:ring",
        "NCCL_PROTO": b"^LL128",
        "NCCL_IB_HCA": b"=mlx5_0:1,mlx5_1",
        "NCCL_MAX_NCHANNELS": b"16",
        "NCCL_BUFFSIZE": b"4194304",
        "NCCL_SOCKET_IFNAME": b"^docker,lo",
        "NCCL_NETDEVS_POLICY": b"MAX:2",
        "NCCL_NVLS_ENABLE": b"2",
        "NCCL_CROSS_NIC": b"1",
        "NCCL_MIN_CTAS": b"8",
        "NCCL_GRAPH_FILE": b"/etc/graph.xml",
    }
    for name, value in values.items():
        yield Original(name, {name: value})


def _options() -> Iterator[Original]:
    """Values of options: a list of nodes, of GPUs, a size."""
    values = {
        "--nodes": b"g[1-16],h[01-04]-ib[0-1],x",
        "--gpus": b"0,1,cuda:2,rank:3,0000:07:00.0",
        "--missing": b"1:mlx5_2",
        "--ignore": b"pcie-width=known since the move",
        "--expect": b"dgx-h100",
        "--nccl": b"nccl-2.27.5",
        "--against": b"2.30.7",
        "--topology": b"names/4",
    }
    for name, value in values.items():
        yield Original(name, {name: value})


def _themes() -> Iterator[Original]:
    for path in sorted((ROOT / "themes").glob("*.toml")):
        yield Original(path.name, {path.name: path.read_bytes()})


def _preferences() -> Iterator[Original]:
    chosen = {"theme": "gputop-light", "level": "quick", "sort": "name"}
    yield Original("app.json", {"app.json": json.dumps(chosen).encode()})


def _histories() -> Iterator[Original]:
    """Kept runs of probes, a line each."""
    runs = (
        SavedRun(
            probe="p2p",
            taken_at=1_700_000_000.0 + number,
            gpus=("0000:07:00.0", "0000:0a:00.0"),
            figures=(
                SavedFigure(
                    quantity="write", src="0000:07:00.0", value=370.5 - number, unit="GB/s"
                ),
            ),
        )
        for number in range(20)
    )
    yield Original("history", {"key.jsonl": b"\n".join(map(msgspec.json.encode, runs)) + b"\n"})


def _confs() -> Iterator[Original]:
    text = b"# ours\nNCCL_DEBUG=INFO\nNCCL_IB_HCA==mlx5_0:1\nexport NCCL_ALGO=Ring\n"
    yield Original("nccl.conf", {"nccl.conf": text})


def _networks() -> Iterator[Original]:
    """Slurm's files, and lines, of the nodes of `_pair_results`."""
    conf = "SwitchName=s0 Nodes=g[1-8]\nSwitchName=s1 Nodes=g[9-16]\nSwitchName=t Switches=s[0-1]\n"
    blocks = "BlockName=b1 Nodes=g[1-8]\nBlockName=b2 Nodes=g[9-16]\nBlockSizes=8,16\n"
    lines = "leaf1: g[1-4]\nleaf2: g[5-8]\nleaf3: g[9-16]\nspine: leaf1,leaf2,leaf3\n"
    yaml = (
        "- topology: tree\n  cluster_default: True\n  tree:\n    switches:\n"
        "    - switch: top\n      children: leaf[1-2]\n"
        '    - switch: leaf1\n      nodes: "g[1-8]"\n    - {switch: leaf2, nodes: g[9-16]}\n'
    )
    for name, text in (("conf", conf), ("blocks", blocks), ("lines", lines), ("yaml", yaml)):
        yield Original(name, {"topology": text.encode()})


def _dumps() -> Iterator[Original]:
    """Dumps of PyTorch's flight recorder, of all ranks."""
    paths = sorted((RECORDINGS / "flight").iterdir())
    yield Original("flight", {path.name: path.read_bytes() for path in paths})


def _job_folders() -> Iterator[Original]:
    """What somebody kept of a job: records of the Inspector, also beside a node and its RAS."""
    for folder in sorted((RECORDINGS / "inspector").iterdir()):
        paths = sorted(folder.iterdir())
        yield Original(folder.name, {path.name: path.read_bytes() for path in paths})
    for folder in sorted((RECORDINGS / "saved-h200x2").iterdir()):
        files = {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
        yield Original(
            f"saved {folder.name}",
            {
                name.removesuffix(".gz"): gzip.decompress(data) if name.endswith(".gz") else data
                for name, data in files.items()
            },
        )


def _ras_texts() -> Iterator[Original]:
    """Answers of `ncclras`, one below a log too, as people paste it."""
    texts = [path for path in (RECORDINGS / "ras").rglob("*.txt") if ".json" not in path.name]
    for path in sorted(texts):
        yield _file(path)
    log = (RECORDINGS / "real-faults" / "one_behind.txt").read_bytes()
    behind = (RECORDINGS / "ras" / "behind.txt").read_bytes()
    yield Original("a log and two answers", {"both.txt": log + behind + behind})


def _ras_documents() -> Iterator[Original]:
    """The same as JSON: one answer, and two of one job."""
    yield from _recorded("ras/*.json", "ras/*.json.txt")()
    data = [(RECORDINGS / "ras" / f"{name}.json").read_bytes() for name in ("healthy", "behind")]
    yield Original("two answers", {"both.txt": b"\n".join(data)})


def _analyses() -> Iterator[Original]:
    """What PyTorch's analysis of dumps prints."""
    yield Original("torchfrtrace", {"analysis.txt": ANALYSIS.encode()})


def _fleets() -> Iterator[Original]:
    """Checks of some nodes, one of them sick, and what other programs wrote beside them."""
    made = [node(f"g{number}") for number in range(1, 7)]
    made[2] = slower(made[2], "gemm gemm bf16", 0.2)
    files = {f"{one['node']}.json": json.dumps(one).encode() for one in made}
    yield Original("checks", files)
    log = RECORDINGS / "nccl-logs" / "h200-default.log.gz"
    few = dict(list(files.items())[:3])
    yield Original("checks and a log", {**few, "g9.log": gzip.decompress(log.read_bytes())})


def _pair_results() -> Iterator[Original]:
    """A plan and the results of its pairs."""
    hosts = [f"g{number}" for number in range(1, 17)]
    pairs = [{"a": one, "b": other} for one, other in zip(hosts[::2], hosts[1::2], strict=True)]
    plan = {"schema": "gputop.fleet-plan/1", "round": 1, "hosts": "g[1-16]", "pairs": pairs}
    files = {"plan-1.json": json.dumps(plan).encode()}
    for number, pair in enumerate(pairs):
        flows = [
            {"what": "send_recv", "rail": rail, "from": pair["a"], "to": pair["b"],
             "bytes": 1 << 26, "gbs": 48.5 - number / 10}
            for rail in range(4)
        ]  # fmt: skip
        answer = {
            "schema": "gputop.net/1", "hosts": list(pair.values()), "status": "finished",
            "round": 1, "taken_at": 1_700_000_000.0 + number, "results": flows,
        }  # fmt: skip
        files[f"net-1-{number}.json"] = json.dumps(answer).encode()
    yield Original("pairs", files)


def _compared() -> Iterator[Original]:
    """Two readings: nodes of one kind, a node and its saved check, or strangers."""
    found = {one.demo: one for one in _snapshots() if one.demo}
    checks = {one.demo: one for one in _checks()}
    pairs = (
        ("hgx-h100-8", found["sick-h100-8"]),
        ("sick-h100-8", checks["hgx-h100-8"]),
        ("sick-mi300x-8", found["mi250x-8"]),
        ("pcie-l40s-8", checks["pcie-l40s-8"]),
    )
    for demo, other in pairs:
        (first,), (second,) = found[demo].files.values(), other.files.values()
        yield Original(f"{demo} and {other.name}", {"a.json": first, "b.json": second}, demo)


def _architectures() -> Iterator[Original]:
    """Files of models, as their makers lay them beside the weights."""
    for name, values in CONFIGS.items():
        yield Original(name, {"config.json": json.dumps(values).encode()})


def _agents() -> Iterator[Original]:
    """What an agent's client says: a message a line."""
    start = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x"}}
    log = "NCCL WARN Call to ibv_reg_mr failed with error Cannot allocate memory\n"
    calls: tuple[tuple[str, dict[str, Any]], ...] = (
        ("node", {"demo": "hgx-h100-8"}),
        ("topology", {"demo": "pcie-l40s-8"}),
        ("explain", {"demo": "mi250x-8", "collective": "AllReduce", "gpus": "0-3"}),
        ("what_if", {"demo": "hgx-h100-8", "set": {"NCCL_ALGO": "Ring"}}),
        ("which", {"demo": "hgx-h100-8", "count": 2}),
        ("check", {"demo": "sick-h100-8"}),
        ("read_text", {"text": log}),
        ("figures", {"product": "H100-SXM", "quantity": "h2d", "measured": 51.0}),
        ("cost", {"model": "", "config": json.dumps(CONFIGS["Mixtral 8x7B"])}),
        ("next_measurement", {"demo": "hgx-h100-8"}),
    )
    for tool, given in calls:
        asked: tuple[tuple[str, dict[str, Any]], ...] = (
            ("initialize", start), ("tools/list", {}),
            ("tools/call", {"name": tool, "arguments": given}),
        )  # fmt: skip
        lines = [
            {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            for number, (method, params) in enumerate(asked)
        ]
        text = "".join(json.dumps(line) + "\n" for line in lines)
        yield Original(tool, {"says.jsonl": text.encode()})


def _nodes() -> Iterator[Original]:
    """What the commands read that say one thing of a node again and again."""
    yield from _snapshots()
    yield from _recorded("hgx-*/nvml.json", "*/amdsmi.json")()


_FINDERS: dict[str, Callable[[], Iterator[Original]]] = {
    "snapshot": _snapshots,
    "check-file": _checks,
    "nccl-xml": _nccl_xml,
    "smi-xml": _recorded("hgx-h200-4gpu-vm/*.xml", "nvidia-public/*.xml"),
    "smi-topo": _matrices,
    "nvml-json": _recorded("hgx-*/nvml.json"),
    "amdsmi-json": _recorded("*/amdsmi.json"),
    "amd-smi-json": _recorded("amd-smi-*/*.json", "amd-public/*static.json"),
    "rocm-smi-json": _recorded("rocm-smi-*/*.json", "amd-public/*-rocm-smi.json"),
    "amd-text": _recorded("amd-smi-mi300x/*.txt", "amd-public/*.txt"),
    "pasted": _pasted,
    "threads": _threads,
    "sysfs-tar": _recorded("kfd/*.tar.gz", "hgx-h200-4gpu-vm/*.tar.gz"),
    "folder": _folders,
    "log": _unpacked_logs,
    "log-gz": _recorded("*-logs/*.log.gz", "nccl-probe/*.log.gz"),
    "ras-text": _ras_texts,
    "ras-json": _ras_documents,
    "torchfrtrace": _analyses,
    "watchdog": _recorded("real-faults/*sleep*.txt", "real-faults/*o[nr]*_[rb]*.txt"),
    "dumps": _dumps,
    "job-folder": _job_folders,
    "fleet": _fleets,
    "pairs": _pair_results,
    "policy": _policies,
    "setting": _settings,
    "option": _options,
    "expect": _snapshots,
    "since": _snapshots,
    "theme": _themes,
    "preferences": _preferences,
    "history": _histories,
    "nccl-conf": _confs,
    "network": _networks,
    "ras-tcp": _ras_documents,
    "compared": _compared,
    "model": _architectures,
    "agent": _agents,
    "node": _nodes,
}
"""Format -> its originals. `expect`, `since`: a snapshot given with that option."""
