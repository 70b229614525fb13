"""Recordings of impossible sizes: refused or answered, and soon."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from gputop.topology.model.machine import Gpu, Machine
from gputop.topology.model.readings import ProcessReading, Readings
from gputop.topology.model.redact import redacted
from gputop.topology.model.snapshot import NodeSnapshot, encode
from gputop.topology.nccl.decide.untuned import TrackedSettings
from gputop.topology.nccl.decide.untuned_builder import UntunedBuilder
from gputop.topology.nccl.nodes import SystemKind
from gputop.topology.nccl.settings import Settings
from gputop.topology.nccl.system.nets import MAX_CHANNELS, LocalNets, nearest
from gputop.topology.recorded.demos.demo import names
from gputop.topology.recorded.feeds import DemoFeed
from gputop.topology.recorded.load import MOST_GPUS, LoadError, load
from gputop.topology.wiring.above import DEEPEST, climb


def written(folder: Path, gpus: int) -> str:
    machine = Machine(
        gpus=tuple(
            Gpu(address=f"{number >> 8:04x}:{number & 255:02x}:00.0", vendor="nvidia")
            for number in range(gpus)
        )
    )
    path = folder / "node.json"
    path.write_bytes(encode(NodeSnapshot(taken_at=1.0, machine=machine)))
    return str(path)


def test_more_gpus_than_a_node_can_have_are_refused(tmp_path: Path) -> None:
    assert len(load([written(tmp_path, MOST_GPUS)]).snapshot.machine.gpus) == MOST_GPUS
    with pytest.raises(LoadError, match=f"5000 GPUs; the limit of one node is {MOST_GPUS}"):
        load([written(tmp_path, 5_000)])


def test_a_tree_deeper_than_pci_is_followed_no_further() -> None:
    parents = {str(number): str(number + 1) for number in range(100_000)}
    assert climb(parents, "0") == tuple(str(number) for number in range(1, DEEPEST + 1))
    assert climb({"a": "b", "b": "a"}, "a") == ("b", "a")


def test_redaction_of_many_identities_is_quick() -> None:
    snapshot = NodeSnapshot(
        taken_at=1.0,
        readings=Readings(
            processes=tuple(
                ProcessReading(pid=number, user=f"user{number}", command=f"job of user{number}")
                for number in range(3_000)
            )
        ),
        machine=Machine(
            gpus=tuple(
                Gpu(address=f"0000:{number:02x}:00.0", vendor="nvidia", serial=f"{10**12 + number}")
                for number in range(100)
            )
        ),
    )
    plain = encode(redacted(snapshot)).decode()
    assert "user2999" not in plain
    assert str(10**12 + 99) not in plain


@pytest.mark.parametrize("name", [name for name in names() if not name.startswith("sick")])
def test_the_gpu_of_a_nic_is_the_first_that_uses_it(name: str) -> None:
    snapshot = DemoFeed(name).at(0)
    # Two hosts, so that NICs count.
    made = UntunedBuilder(snapshot, TrackedSettings(Settings.of(snapshot).values), None, None, 2)
    system = made.computed()[0].system
    assert system.nodes[SystemKind.NET]
    for policy in ("AUTO", "ALL", "MAX:2"):
        settings = Settings({"NCCL_NETDEVS_POLICY": policy})
        version = msgspec.structs.replace(made.version, netdevs_policy=True)
        local = LocalNets(system, version, settings)
        for net in system.nodes[SystemKind.NET]:
            near, _ = nearest(net, SystemKind.GPU)
            users = [
                gpu
                for channel in range(MAX_CHANNELS)
                for gpu in near
                if local.net(gpu, channel) == net.index
            ]
            assert local.gpu(net.index) == (users[0] if users else -1)
