"""Words for a GPU."""

from __future__ import annotations

import pytest

from gputop.measuring.selection import SelectionError, hidden_note, measurable, select
from gputop.topology.model.machine import Gpu, Machine, MigInstance
from gputop.topology.model.snapshot import EnvironmentVariable, NodeSnapshot

A, B = "0000:1b:00.0", "0000:43:00.0"
UUID = "GPU-00000000-0000-4000-8000-00000000000a"
PARTS = tuple(MigInstance(index=n, uuid=f"MIG-bbbb-{n}") for n in (1, 2))
# NVML counts the other way round than PCI here.
MACHINE = Machine(
    gpus=(
        Gpu(address=A, vendor="nvidia", index=1, uuid=UUID, name="X"),
        Gpu(address=B, vendor="nvidia", index=0, name="X", uuid="GPU-bb-2", mig_instances=PARTS),
    )
)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (None, (A, B)),
        ("0", (B,)),
        ("nvml:1,0", (A, B)),
        ("rank:0", (A,)),
        ("cuda:1", (B,)),
        ("1B:00.0", (A,)),
        ("00000000:43:00.0", (B,)),
        (UUID.lower(), (A,)),
        ("0,0", (B,)),
        ("GPU0", (B,)),
        ("gpu1,gpu 0", (A, B)),
        ("GPU0-GPU1", (B, A)),
        ("gpu0-1", (B, A)),
    ],
)
def test_words_become_addresses(words: str | None, expected: tuple[str, ...]) -> None:
    assert select(words, MACHINE) == expected


def test_a_domain_is_hexadecimal() -> None:
    here = Machine(gpus=(Gpu(address="001a:43:00.0", vendor="nvidia"), *MACHINE.gpus))
    assert select("001A:43:00.0,0000001a:43:00.0", here) == ("001a:43:00.0",)


def test_a_bare_number_can_be_a_rank() -> None:
    assert select("0", MACHINE, bare="rank") == (A,)


@pytest.mark.parametrize(
    "words", ["2", "nvml:7", "rank:2", "cuda:2", "0000:99:00.0", "GPU-nope", "", "x,0"]
)
def test_what_is_not_there_is_an_error_that_names_what_is(words: str) -> None:
    with pytest.raises(SelectionError, match=A):
        select(words, MACHINE)


def test_cuda_order_is_unknown_among_different_models() -> None:
    machine = Machine(
        gpus=(
            Gpu(address=A, vendor="nvidia", index=0, name="X"),
            Gpu(address=B, vendor="nvidia", index=1, name="Y"),
        )
    )
    with pytest.raises(SelectionError, match="ambiguous"):
        select("cuda:0", machine)


BOTH = Machine(
    gpus=(
        Gpu(address=A, vendor="nvidia", index=0, name="X"),
        Gpu(address=B, vendor="amd", index=0, name="Y", kfd_node=5),
        Gpu(address="0000:63:00.0", vendor="amd", index=1, name="Y", kfd_node=4),
    )
)


@pytest.mark.parametrize(
    ("words", "expected"),
    [("nvml:0", A), ("amdsmi:0", B), ("1", "0000:63:00.0"), ("hip:0", "0000:63:00.0")],
)
def test_each_vendor_counts_its_own_gpus(words: str, expected: str) -> None:
    assert select(words, BOTH) == (expected,)


@pytest.mark.parametrize("words", ["0", "nvml:1", "cuda:0"])
def test_a_number_that_either_vendor_could_mean_is_refused(words: str) -> None:
    with pytest.raises(SelectionError, match=r"each vendor|no GPU nvml:1|ambiguous"):
        select(words, BOTH)


def test_a_rank_is_that_of_the_gpus_that_take_part() -> None:
    assert select("0,1", BOTH, bare="rank") == ("0000:63:00.0", B)


@pytest.mark.parametrize(
    ("source", "visible", "measured", "note"),
    [
        ("live", "1", (B,), "GPU1 left out (CUDA_VISIBLE_DEVICES=1)"),
        ("live", "1,0", (A, B), ""),
        ("live", "MIG-bb", (B,), "GPU1 left out (CUDA_VISIBLE_DEVICES=MIG-bb)"),
        ("live", "MIG-bbbb-1,MIG-bbbb-2,0", (A, B), ""),
        ("live", "MIG-GPU-bb-2/1/0", (B,), "GPU1 left out (CUDA_VISIBLE_DEVICES=MIG-GPU-bb-2/1/0)"),
        # No GPU is left: the probe itself says why it cannot use one.
        ("live", "", (A, B), ""),
        ("recorded.json", "1", (A, B), ""),
    ],
)
def test_a_list_of_visible_devices_holds_for_the_probes_of_this_machine(
    source: str, visible: str, measured: tuple[str, ...], note: str
) -> None:
    listed = EnvironmentVariable(name="CUDA_VISIBLE_DEVICES", value=visible, origin="environment")
    snapshot = NodeSnapshot(taken_at=0.0, source=(source,), machine=MACHINE, environment=(listed,))
    assert (measurable(snapshot), hidden_note(snapshot)) == (measured, note)
