"""Probes of copies, end to end: a bare Python, the loader, a made-up driver, every verdict.

Nothing of ours is replaced: the driver is found by its name, and says what is wrong with the node.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from gputop.probes.protocol.messages import Hello, MeasuredValue, Progress, WorkerRequest
from tests.device_kernels.made_up import NOTHING, Answered, MadeUpNode
from tests.support.probe_runs import run_probe

PAIRS = {(a, b) for a in "123" for b in "123" if a != b}
P2P = WorkerRequest("p2p", params={"level": "quick"})
CONCURRENT = WorkerRequest("p2p-concurrent", params={"level": "quick"})
HOST = WorkerRequest("host", params={"level": "quick"})
MEMORY = WorkerRequest("memory", params={"level": "quick", "samples": 3})
SMALL = "memory_mib=1110"
"""So little memory that a probe takes its smallest buffers."""


def values(answered: Answered, name: str) -> set[float]:
    return {round(m.value or 0) for m in answered.figures(name).values()}


def test_p2p_of_three_gpus(nvidia_node: MadeUpNode) -> None:
    found = nvidia_node.answers(P2P, "devices=3", counts=("calls.cuInit",))
    hello = next(m for m in found.said if isinstance(m, Hello))
    assert (hello.device_kind, hello.torch, hello.cuda) == ("gpu", None, "12.8")
    assert [d.key for d in hello.devices] == ["0000:01:00.0", "0000:02:00.0", "0000:03:00.0"]
    for name, verdict in (("can_access", "granted"), ("bytes_arrive", "arrived"),
                          ("write_bandwidth", "verified")):  # fmt: skip
        assert found.figures(name).keys() == PAIRS
        assert {m.verdict for m in found.figures(name).values()} == {verdict}
    assert values(found, "write_bandwidth") == {398}, "400 GB/s, and a microsecond for each copy"
    assert values(found, "latency") == {1}
    assert values(found, "together_bandwidth") == {795}
    assert found.held == NOTHING
    assert (found.counted["mapped"], found.counted["held_late"]) == (6, 0)
    assert found.counted["calls.cuInit"] == 1
    first = next(n for n, m in enumerate(found.said) if isinstance(m, MeasuredValue))
    assert [m.what.split()[0] for m in found.said[:first] if isinstance(m, Progress)] == [
        "asking", "opening", "filling", "0000:01:00.0",
    ]  # fmt: skip


def test_every_path_of_a_pair(nvidia_node: MadeUpNode) -> None:
    normal = WorkerRequest("p2p", params={"samples": 3})
    found = nvidia_node.answers(normal, "devices=2", "op_ns=0")
    for name, gbs in (("read_bandwidth", 400), ("kernel_write_bandwidth", 370),
                      ("kernel_read_bandwidth", 370), ("both_ways_bandwidth", 400)):  # fmt: skip
        assert values(found, name) == {gbs}, name
    assert {m.value for m in found.figures("kernel_latency").values()} == {0.7}
    for name in ("read_bandwidth", "kernel_write_bandwidth", "kernel_read_bandwidth"):
        assert {m.verdict for m in found.figures(name).values()} == {"verified"}
    assert found.figures("staged_bandwidth")["1", "2"].verdict == "verified"
    assert found.held == NOTHING


def test_a_pair_that_is_not_granted_is_staged(nvidia_node: MadeUpNode) -> None:
    found = nvidia_node.answers(P2P, "devices=2", "denied=0>1")
    for name in ("can_access", "bytes_arrive"):
        assert found.figures(name)["1", "2"].verdict == "not-granted"
    assert found.figures("can_access")["2", "1"].verdict == "granted"
    write = found.figures("write_bandwidth")["1", "2"]
    assert (round(write.value or 0), write.verdict) == (20, "verified")
    assert "staged" in write.engine
    assert found.figures("bytes_arrive")["2", "1"].verdict == "arrived"
    assert found.held == NOTHING


@pytest.mark.parametrize("more", ["", "cuModuleLoadData=222"])
def test_a_peer_too_many_is_staged_and_the_others_are_measured(
    nvidia_node: MadeUpNode, more: str
) -> None:
    """Without a switch a GPU maps eight peers at most; here the third pair is refused."""
    found = nvidia_node.answers(P2P, "devices=3", "cuCtxEnablePeerAccess=711@5", more)
    assert {m.verdict for m in found.figures("can_access").values()} == {"granted"}
    writes = found.figures("write_bandwidth")
    staged = {ends for ends, m in writes.items() if "staged" in m.engine}
    assert writes.keys() == PAIRS
    assert staged == {("2", "3"), ("3", "2")}
    if not more:
        arrival = found.figures("bytes_arrive")["2", "3"]
        assert arrival.verdict == "not-granted"
        assert (arrival.why or "").startswith("cuCtxEnablePeerAccess answered 711 (CUDA_ERROR_TOO")
    crowd = nvidia_node.answers(CONCURRENT, "devices=3", "cuCtxEnablePeerAccess=711@5", more)
    at_once = crowd.figures("concurrent_bandwidth")
    assert {ends for ends, m in at_once.items() if "staged" in m.engine} == staged
    assert found.held == crowd.held == NOTHING


def test_bytes_that_are_lost_on_the_way(nvidia_node: MadeUpNode) -> None:
    found = nvidia_node.answers(P2P, "devices=2", "lost=1>0")
    arrival = found.figures("bytes_arrive")["2", "1"]
    assert (arrival.verdict, arrival.wrong_bytes) == ("wrong-bytes", 8)
    assert arrival.first_wrong_offset == (arrival.checked_bytes or 0) - 8
    assert found.figures("write_bandwidth")["2", "1"].verdict == "wrong-data"
    assert found.figures("bytes_arrive")["1", "2"].verdict == "arrived"
    assert found.figures("write_bandwidth")["1", "2"].verdict == "verified"


def test_a_gpu_whose_memory_is_wrong(nvidia_node: MadeUpNode) -> None:
    found = nvidia_node.answers(P2P, "devices=2", "spoil=any@1")
    assert found.figures("bytes_arrive")["1", "2"].verdict == "wrong-bytes"
    assert found.figures("write_bandwidth")["1", "2"].verdict == "wrong-data"
    host = nvidia_node.answers(HOST, "devices=1", "spoil=any@0", SMALL)
    assert {m.verdict for m in host.said if isinstance(m, MeasuredValue)} == {"wrong-data"}


def test_many_pairs_at_once(nvidia_node: MadeUpNode) -> None:
    found = nvidia_node.answers(CONCURRENT, "devices=3")
    assert found.figures("concurrent_bandwidth").keys() == PAIRS
    assert values(found, "concurrent_bandwidth") == {395}
    (wiring,) = found.notes("wiring")
    assert "a mesh" in wiring, "each stream has a link of its own here"
    assert (found.held, found.counted["held_late"]) == (NOTHING, 0)


def test_host_copies(nvidia_node: MadeUpNode) -> None:
    found = nvidia_node.answers(HOST, "devices=1", SMALL)
    for name in ("h2d_bandwidth", "d2h_bandwidth"):
        (figure,) = found.figures(name).values()
        assert (round(figure.value or 0), figure.verdict) == (50, "verified")
    assert found.held == NOTHING


def test_memory_of_its_own(nvidia_node: MadeUpNode) -> None:
    found = nvidia_node.answers(MEMORY, "devices=1", "memory_mib=1500")
    verdicts = {m.verdict for m in found.said if isinstance(m, MeasuredValue)}
    assert verdicts == {"verified"}
    for name, gbs in (("memory_copy", 3941), ("memory_read", 1971), ("memory_write", 1971),
                      ("memory_triad", 5912)):  # fmt: skip
        assert values(found, name) == {gbs}
    assert found.held == NOTHING


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("", "No GPU can be used: cuInit answered 100 (CUDA_ERROR_NO_DEVICE: no device is "
         "detected)."),
        ("devices=2;cuInit=802", "No GPU can be used: cuInit answered 802 "
         "(CUDA_ERROR_SYSTEM_NOT_READY: system not yet initialized)."),
        ("devices=2;version=11030", "No GPU can be used: the driver is of CUDA 11.3: 11.4 is "
         "needed."),
        ("devices=1", "2 GPUs are needed, and 1 can be used here."),
        ("devices=2;memory_mib=1001", "0000:01:00.0 has 1000 MiB free: the probe wants 192 MiB "
         "and leaves 1024 MiB free."),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_one_sentence(
    nvidia_node: MadeUpNode, words: str, said: str
) -> None:
    found = nvidia_node.answers(P2P, words)
    assert (found.failure.error, found.failure.text) == ("refused", said)
    assert not any(isinstance(m, MeasuredValue) for m in found.said)


@pytest.mark.parametrize(
    ("request_", "words", "said"),
    [
        (P2P, "cuMemAlloc_v2=2@4", "cuMemAlloc_v2 answered 2 (CUDA_ERROR_OUT_OF_MEMORY: out of"),
        (CONCURRENT, "cuMemcpyAsync=1@9", "cuMemcpyAsync answered 1 (CUDA_ERROR_INVALID_VALUE"),
        (HOST, "cuMemHostAlloc=2", "cuMemHostAlloc answered 2 (CUDA_ERROR_OUT_OF_MEMORY: out of"),
        (MEMORY, "memory_mib=1500;cuMemAlloc_v2=2@5", "cuMemAlloc_v2 answered 2 "),
    ],
    ids=lambda value: value.probe if isinstance(value, WorkerRequest) else "",
)
def test_a_probe_that_fails_leaves_nothing(
    nvidia_node: MadeUpNode, request_: WorkerRequest, words: str, said: str
) -> None:
    found = nvidia_node.answers(request_, "devices=2", words)
    assert found.failure.error == "failed"
    assert said in found.failure.text
    assert {**found.held, "events": 0} == NOTHING


def test_a_fault_is_named_by_the_call_that_met_it(nvidia_node: MadeUpNode) -> None:
    found = nvidia_node.answers(P2P, "devices=2", "kernel.gputop_unlike_random=719")
    assert "answered 719 (CUDA_ERROR_LAUNCH_FAILED: unspecified launch failure)" in (
        found.failure.text
    )
    assert found.failure.text.startswith("0000:01:00.0 to 0000:02:00.0: cuCtxS")
    assert found.failure.text.endswith(" on 0000:02:00.0")
    arrival = found.figures("bytes_arrive")["1", "2"]
    assert arrival.verdict == "failed"


def test_a_driver_that_takes_no_code_still_copies(nvidia_node: MadeUpNode) -> None:
    found = nvidia_node.answers(P2P, "devices=2", "cuModuleLoadData=222")
    (note,) = found.notes("kernels")
    assert note.startswith("No kernel of ours runs here: cuModuleLoadData answered 222 (CUDA_")
    assert {m.verdict for m in found.figures("write_bandwidth").values()} == {None}
    assert not found.figures("bytes_arrive")
    assert found.held == NOTHING
    memory = nvidia_node.answers(MEMORY, "devices=2", "cuModuleLoadData=222")
    assert "No kernel of ours runs here" in memory.failure.text


def test_copies_that_block_are_measured_with_their_calls(nvidia_node: MadeUpNode) -> None:
    found = nvidia_node.answers(P2P, "devices=2", "blocking=1")
    assert found.figures("write_bandwidth")["1", "2"].verdict == "verified"
    assert found.counted["held_late"] <= 6, "found out once for each device and number of lanes"


def test_instances_are_chosen_by_their_uuid(nvidia_node: MadeUpNode) -> None:
    name = "NVIDIA H100 80GB HBM3 MIG 1g.10gb"
    keys = [f"MIG-{n * 4}-{n * 2}-{n * 2}-{n * 2}-{n * 6}" for n in ("20", "21")]
    found = nvidia_node.answers(
        WorkerRequest("host", (keys[1],), {"level": "quick"}),
        "devices=2", f"name.0={name}", f"name.1={name}", "address.1=0000:01:00.0", SMALL,
    )  # fmt: skip
    figures = [m for m in found.said if isinstance(m, MeasuredValue)]
    assert {m.src for m in figures} == {keys[1]}
    hello = next(m for m in found.said if isinstance(m, Hello))
    assert [(d.key, d.selected) for d in hello.devices] == [(keys[1], True), (keys[0], False)]
    assert found.held == NOTHING


def test_copies_need_no_torch(
    bare_python: str, libraries: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keeper, worker and loader as on a node, with a driver that is made up."""
    monkeypatch.setenv("LD_LIBRARY_PATH", libraries("nvidia"))
    monkeypatch.setenv("GPUTOP_MADE_UP", "devices=2")
    outcome = run_probe(P2P, bare_python, lambda m: None, 90.0, threading.Event())
    assert (outcome.status, outcome.exit_code) == ("finished", 0), outcome
    assert outcome.hello is not None
    assert (outcome.hello.device_kind, outcome.hello.torch) == ("gpu", None)
    verdicts = {m.name: m.verdict for m in outcome.latest()}
    assert verdicts["bytes_arrive"] == "arrived"
    assert verdicts["write_bandwidth"] == "verified"


@pytest.fixture
def node_with(libraries: Callable[..., str]) -> Iterator[Callable[..., MadeUpNode]]:
    """Give a node of another vendor, or whose driver lacks a function."""
    nodes: list[MadeUpNode] = []

    def make(vendor: str, lacks: str = "") -> MadeUpNode:
        nodes.append(MadeUpNode(libraries(vendor, lacks), vendor))
        return nodes[-1]

    yield make
    for node in nodes:
        node.close()


def test_a_gpu_that_does_not_answer_is_left_out(nvidia_node: MadeUpNode) -> None:
    """One that fell off the bus; the others can be measured."""
    lost = "devices=2", "cuDeviceTotalMem_v2=999@2", "memory_mib=1500"
    one = WorkerRequest("memory", ("0000:01:00.0",), {"level": "quick", "samples": 3})
    found = nvidia_node.answers(one, *lost)
    assert {m.verdict for m in found.said if isinstance(m, MeasuredValue)} == {"verified"}
    both = nvidia_node.answers(MEMORY, *lost, "cuDevicePrimaryCtxRetain=999@2")
    assert "cuDevicePrimaryCtxRetain answered 999 (CUDA_ERROR_UNKNOWN" in both.failure.text


def test_a_driver_that_lacks_a_call(node_with: Callable[..., MadeUpNode]) -> None:
    found = node_with("nvidia", "cuMemcpyAsync").answers(P2P, "devices=2")
    assert found.failure.text == ("this driver has no cuMemcpyAsync: it is too old for gputop")


def test_a_node_of_amd(node_with: Callable[..., MadeUpNode]) -> None:
    """The library is found by its name; the kernel of this machine lists no such GPU."""
    found = node_with("amd").answers(P2P, "devices=2")
    hello = next(m for m in found.said if isinstance(m, Hello))
    assert {d.name for d in hello.devices} == {"AMD Instinct MI300X"}
    assert values(found, "write_bandwidth") == {397}, "with what launching takes"
    (note,) = found.notes("kernels")
    assert "/sys/class/kfd does not list 0000:01:00.0" in note
    assert found.held == NOTHING
