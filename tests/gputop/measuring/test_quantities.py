"""Quantities by the keys of figures, as the probes declare them."""

from __future__ import annotations

from gputop.measuring.quantities import UNDECLARED, headline_place, place_of, quantity, specs


def test_a_quantity_is_that_of_its_own_probe() -> None:
    for name, spec in specs().items():
        for place, declared in enumerate(spec.quantities):
            first = next(one for one in spec.quantities if one.key == declared.key)
            assert quantity(declared.key, name) is first, (name, declared.key)
            assert place_of(declared.key, name) == spec.quantities.index(first), (name, place)
            assert (headline_place(declared.key, name) == -1) is first.headline


def test_a_key_that_no_probe_declares_is_its_own_title_and_comes_last() -> None:
    assert (quantity("odd_bandwidth").title, quantity("odd_bandwidth").per) == ("odd", UNDECLARED)
    for name, spec in specs().items():
        assert place_of("odd", name) == len({one.key for one in spec.quantities}), name
    assert place_of("odd", "no such probe") == 0
