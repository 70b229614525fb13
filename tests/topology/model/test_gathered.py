"""Things gathered by a key keep their order, and that of the keys."""

from gputop.topology.model.gathered import gathered, gathered_by


def test_pairs_are_gathered_by_what_stands_first() -> None:
    found = gathered(iter([("b", 2), ("a", 1), ("b", 0)]))
    assert list(found.items()) == [("b", [2, 0]), ("a", [1])]


def test_values_are_gathered_by_a_key_of_each() -> None:
    found = gathered_by(["GPU1", "NIC0", "GPU0"], lambda name: name[:3])
    assert list(found.items()) == [("GPU", ["GPU1", "GPU0"]), ("NIC", ["NIC0"])]
