"""The figures of a node as a fleet compares them: alike on equal nodes, wherever their GPUs are."""

from __future__ import annotations

import msgspec
import pytest

from gputop.answers.check import CheckRequest, answer
from gputop.topology.fleet.making import figures_of
from gputop.topology.model.snapshot import NodeSnapshot


def measured() -> NodeSnapshot:
    return answer(CheckRequest(demo="hgx-h100-8")).snapshot


def test_figures_of_all_pairs_are_one_figure_with_the_worst_of_them() -> None:
    snapshot = measured()
    by_key = {(figure.key, figure.over): figure for figure in figures_of(snapshot)}
    pairs = by_key["p2p write_bandwidth", "NV18"]
    values = [m.value for m in snapshot.measurements if m.quantity == "write_bandwidth" and m.value]
    assert (pairs.count, len(values)) == (56, 56)
    assert pairs.worst == float(f"{min(values):.5g}")
    reduced = by_key["collectives all_reduce_busbw in place", "node"]
    made = [m for m in snapshot.measurements if m.quantity == "all_reduce_busbw"]
    sizes = {m.bytes_per_copy: m.value for m in made}
    assert reduced.count == 1
    assert reduced.value == float(f"{sizes[max(filter(None, sizes))]:.5g}")


def test_no_figure_is_named_by_a_device_or_a_size_of_one_node() -> None:
    snapshot = measured()
    addresses = [gpu.address for gpu in snapshot.machine.gpus]
    keys = [figure.key for figure in figures_of(snapshot)]
    assert keys
    assert not [key for key in keys for address in addresses if address in key]


def test_nodes_whose_gpus_lie_elsewhere_have_the_same_figures() -> None:
    snapshot = measured()

    def moved(text: str | None) -> str | None:
        return text and text.replace("0000:", "0001:")

    text = msgspec.json.encode(snapshot.machine).replace(b"0000:", b"0001:")
    machine = msgspec.json.decode(text, type=type(snapshot.machine))
    figures = tuple(
        msgspec.structs.replace(m, src=moved(m.src), dst=moved(m.dst), way=moved(m.way))
        for m in snapshot.measurements
    )
    other = msgspec.structs.replace(snapshot, machine=machine, measurements=figures)
    assert machine.gpus[0].address.startswith("0001:")
    assert [f.key for f in figures_of(other)] == [f.key for f in figures_of(snapshot)]


@pytest.mark.parametrize("value", [0.0, -1.0, None])
def test_a_figure_that_is_not_above_zero_is_none_of_the_node(value: float | None) -> None:
    snapshot = measured()
    one = next(m for m in snapshot.measurements if m.quantity == "write_bandwidth" and m.value)
    for given, count in ((one.value, 1), (value, 0)):
        figures = (msgspec.structs.replace(one, value=given),)
        of_one = msgspec.structs.replace(snapshot, measurements=figures)
        assert len(figures_of(of_one)) == count
