"""The way that UCX takes from GPU to GPU, and UCX's own answers to the same settings."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from gputop.answers.flags import FlagsAnswer, page
from gputop.printing.render import blocks_of, texts
from gputop.topology.flags.account.ucx import allowed, devices, gpu_to_gpu
from gputop.topology.flags.catalogue.catalogue import catalogue
from gputop.topology.flags.what_if.study import Study
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.model.surroundings import RdmaPort
from gputop.topology.recorded.feeds import DemoFeed
from tests.support.places import TESTS
from tests.topology.jobs.replaying import recorded

PRESENT = ("cma", "posix", "self", "sysv", "tcp")
"""Transports of the machine on which the answers below were recorded; it had eth0 and lo."""
SHM = "cma/memory posix/memory sysv/memory"
TCP = "tcp/eth0 tcp/lo"
ALL = f"cma/memory posix/memory self/memory sysv/memory {TCP}"
LOCAL = "cma/memory posix/memory self/memory sysv/memory"
# What `ucx_info -p -u t` of 1.22.0 lists, which is what 1.13.1 of Debian 12 lists too, but for the
# two with ^ and [ in UCX_NET_DEVICES, which came with 1.21 and 1.22.
ANSWERS = [
    ({}, ALL),
    ({"UCX_TLS": "all"}, ALL),
    ({"UCX_TLS": "tcp"}, TCP),
    ({"UCX_TLS": "^tcp"}, LOCAL),
    ({"UCX_TLS": "rc,foo"}, ""),
    ({"UCX_TLS": "rc,tcp"}, TCP),
    ({"UCX_TLS": "sm"}, SHM),
    ({"UCX_TLS": "shm,tcp"}, f"{SHM} {TCP}"),
    ({"UCX_TLS": "mm"}, "posix/memory sysv/memory"),
    ({"UCX_TLS": "self,tcp"}, f"self/memory {TCP}"),
    ({"UCX_TLS": "^shm"}, f"self/memory {TCP}"),
    ({"UCX_TLS": "^sm,tcp"}, "self/memory"),
    ({"UCX_TLS": "TCP"}, ""),
    ({"UCX_TLS": "tcp,cuda_copy,cuda_ipc"}, TCP),
    ({"UCX_TLS": "cuda"}, ""),
    ({"UCX_TLS": "\\tcp"}, TCP),
    ({"UCX_TLS": ""}, ""),
    ({"UCX_TLS": "^rc_x"}, ALL),
    ({"UCX_TLS": "cma"}, "cma/memory"),
    ({"UCX_TLS": "tcp,eth0"}, TCP),
    ({"UCX_TLS": "tcp", "UCX_NET_DEVICES": "mlx5_0:1"}, ""),
    ({"UCX_NET_DEVICES": "eth0"}, f"{LOCAL} tcp/eth0"),
    ({"UCX_NET_DEVICES": "lo,eth0"}, ALL),
    ({"UCX_NET_DEVICES": "eth"}, LOCAL),
    ({"UCX_NET_DEVICES": "eth9"}, LOCAL),
    ({"UCX_NET_DEVICES": "^lo"}, f"{LOCAL} tcp/eth0"),
    ({"UCX_NET_DEVICES": "eth[0-3]"}, f"{LOCAL} tcp/eth0"),
    ({"UCX_NET_DEVICES": "mlx5_0:1"}, LOCAL),
    ({"UCX_NET_DEVICES": ""}, LOCAL),
    ({"UCX_NET_DEVICES": "eth0:1"}, LOCAL),
    ({"UCX_NET_DEVICES": "all"}, ALL),
]


@pytest.mark.parametrize(("values", "said"), ANSWERS)
def test_what_is_left_is_what_ucx_lists(values: dict[str, str], said: str) -> None:
    left = allowed(values.get("UCX_TLS"))
    over = devices(values.get("UCX_NET_DEVICES"), ["eth0", "lo"])
    found = {f"{name}/memory" for name in PRESENT if name in left and name != "tcp"}
    found |= {f"tcp/{name}" for name in over if "tcp" in left}
    assert found == set(said.split())


def told(demo: str, **values: str) -> str:
    return said_of(DemoFeed(demo, version="0").at(0), **values)


def said_of(snapshot: NodeSnapshot, **values: str) -> str:
    section = gpu_to_gpu(snapshot, values)
    return " ".join(" ".join(texts(blocks_of((section,)), 80)).split())


@pytest.mark.parametrize(
    ("demo", "values", "parts"),
    [
        ("hgx-h100-8", {}, ("GPU7: mlx5_7:1", "by nvidia-peermem", "cuda_ipc, straight", "PyPI")),
        ("pcie-l40s-8", {}, ("GPU0 and GPU1: mlx5_0:1", "by DMA-BUF where UCX is 1.14")),
        ("hgx-h100-8", {"UCX_TLS": "rc,sm,self"}, ("leaves cuda_copy out", "host memory")),
        ("mi300x-8", {"UCX_TLS": "rc,cuda"}, ("leaves rocm_copy out",)),
        ("mi300x-8", {}, ("rocm_ipc, straight", "as amdgpu is here")),
        ("hgx-h100-8", {"UCX_TLS": "tcp,cuda,sm"}, ("TCP over", "leaves the RDMA devices out")),
        ("hgx-h100-8", {"UCX_NET_DEVICES": "mlx5_3:1"}, ("mlx5_3:1 is the only port",)),
        ("hgx-h100-8", {"UCX_NET_DEVICES": "eth77"}, ("no way is left",)),
        ("hgx-h100-8", {"UCX_TLS": "^cuda_ipc"}, ("not directly", "is not known")),
        ("hgx-h100-8", {"UCX_IB_GPU_DIRECT_RDMA": "n"}, ("has it go through host memory",)),
        ("hgx-h100-8", {"UCX_MAX_RMA_RAILS": "4"}, ("a put or get 4.",)),
        ("dgx-1v", {}, ("where the driver grants P2P", "not known")),
    ],
)
def test_it_says_what_the_rules_prove(
    demo: str, values: dict[str, str], parts: tuple[str, ...]
) -> None:
    text = told(demo, **values)
    assert [part for part in parts if part not in text] == []


# What UCX_PROTO_INFO=y of UCX 1.22.0 printed of tagged messages of 64 MiB from one H200 to another:
# two processes of a host without RDMA, by ucx_perftest -t tag_bw -m cuda.
BY_CUDA_IPC = "rendezvous zero-copy read from remote | cuda_ipc/cuda"
STAGED = "rendezvous pipeline cuda_copy, flushed write to remote, frag host | cma/memory"
TAKEN = {
    None: BY_CUDA_IPC,
    "cuda_ipc,cuda_copy,tcp,self": BY_CUDA_IPC,
    "^cuda_ipc": STAGED,
    "tcp,sm,self,cuda_copy": STAGED,
    "tcp,sm,self": "ucp test failed to allocate memory",
}
MEANS = {
    "cuda_ipc/cuda": "Inside this host: cuda_ipc, straight from GPU to GPU",
    "cma/memory": "cuda_copy at both ends and shared memory between them",
    "failed": "leaves cuda_copy out: UCX takes GPU memory for host memory",
}


@pytest.mark.parametrize("transports", TAKEN)
def test_two_h200_took_the_way_that_is_told(transports: str | None) -> None:
    folder = TESTS / "recordings/jobs-h200x2"
    snapshot = recorded(folder / "fsdp-0.json", folder / "node.json").snapshot
    text = said_of(snapshot, **({} if transports is None else {"UCX_TLS": transports}))
    (said,) = (said for part, said in MEANS.items() if part in TAKEN[transports])
    assert said in text


def test_without_rdma_it_is_tcp_and_without_either_nothing_is_known() -> None:
    snapshot = DemoFeed("hgx-h100-8", version="0").at(0)
    bare = replace(snapshot, machine=replace(snapshot.machine, rdma=()))
    assert "no RDMA device with an active port is here" in said_of(bare)
    down = tuple(
        replace(nic, ports=(RdmaPort(port=1, state="DOWN"),)) for nic in snapshot.machine.rdma
    )
    assert "TCP over" in said_of(replace(snapshot, machine=replace(snapshot.machine, rdma=down)))
    blind = replace(bare, machine=replace(bare.machine, interfaces=()))
    assert "not known, as neither" in said_of(blind)
    assert gpu_to_gpu(NodeSnapshot(taken_at=0.0), {}).empty


def test_variables_of_other_programs_stand_apart_with_the_way_that_follows() -> None:
    values = {
        "NCCL_DEBUG": "INFO",
        "UCX_TLS": "tcp,cuda",
        "GLOO_SOCKET_IFNAME": "eth77",
        "UCX_X": "1",
    }
    study = Study(DemoFeed("hgx-h100-8", version="0").at(0), values=values)
    lines = texts(page(FlagsAnswer(study=study)).blocks, 100)
    text = " ".join(" ".join(lines).split())
    for part in (
        "Read by Gloo - GLOO_SOCKET_IFNAME=eth77",
        "Gloo ends the start with 'Unable to find address for'",
        "Read by UCX - UCX_TLS=tcp,cuda",
        "UCX_X=1 (--set): It is a name like those that UCX reads, not described here.",
        "To another host: TCP over",
    ):
        assert part in text
    assert text.index("NCCL_DEBUG=INFO") < text.index("Read by Gloo") < text.index("Read by UCX")


def test_every_word_of_the_families_is_one_that_ucx_tls_takes() -> None:
    flag = catalogue().flag("UCX_TLS")
    assert flag is not None
    named = {name for word in flag.options for name in allowed(word)}
    assert named <= set(flag.options)
