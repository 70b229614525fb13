"""The tables of versions: what they inherit, what is refused, and what each version changed."""

from __future__ import annotations

import pytest

from gputop.topology.model.versions import numbers
from gputop.topology.nccl.decide.predict import predict
from gputop.topology.nccl.search.version import search_versions
from gputop.topology.nccl.tuning.version import tuning_versions
from gputop.topology.nccl.versions import (
    VersionEntry,
    VersionTableError,
    nearest,
    parse_table,
    taken_for,
    version_for,
    versions,
    whole_version,
)
from gputop.topology.recorded.feeds import DemoFeed
from tests.support.nccl.versions import changes, lines


class Made(VersionEntry, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An entry of a made-up table."""

    width: int
    rates: dict[str, float]


def entry(number: str, *more: str, library: str = "nccl") -> str:
    """One entry of a table in TOML."""
    return "\n".join(("[[version]]", f'library = "{library}"', f'number = "{number}"', *more, ""))


FIRST = entry("2.1", "tested = true", "width = 4", "rates = { near = 1.0, far = 2.0 }")


def read(*entries: str) -> tuple[Made, ...]:
    """A made-up table, read."""
    return parse_table("\n".join(entries), "made.toml", Made)


def test_an_entry_inherits_all_but_what_it_says_of_itself() -> None:
    first, second = read(FIRST, entry("2.2", 'after = "nccl-2.1"', "rates = { far = 3.0 }"))
    assert first.tested
    assert not second.tested
    assert second.width == 4
    assert second.rates == {"near": 1.0, "far": 3.0}
    assert first.rates == {"near": 1.0, "far": 2.0}


@pytest.mark.parametrize(
    ("added", "message"),
    [
        (entry("2.1", "width = 1"), "made.toml: nccl-2.1 has two entries"),
        (
            entry("2.2", 'after = "nccl-2.3"'),
            "made.toml: nccl-2.2 comes after nccl-2.3, which has no entry above it",
        ),
        (entry("2.0", 'after = "nccl-2.1"'), "made.toml: nccl-2.0 stands below a newer version"),
        (entry("2.2"), "made.toml: nccl-2.2: Object missing required field `width`"),
        (entry("2.2", 'after = "nccl-2.1"', "widht = 8"), "unknown field `widht`"),
        (entry("2.2", 'after = "nccl-2.1"', 'width = "8"'), "Expected `int`, got `str`"),
        (entry("2.2", 'after = "nccl-2.1"', library="mccl"), "mccl-2.2"),
        (entry("next", 'after = "nccl-2.1"'), "made.toml: nccl-next is no version"),
        ("[[version]]\nnumber = ", "made.toml: "),
        ("[[version]]", "made.toml: "),
    ],
)
def test_a_table_that_contradicts_itself_says_where(added: str, message: str) -> None:
    with pytest.raises(VersionTableError) as raised:
        read(FIRST, added)
    assert message in str(raised.value)


def test_a_version_without_an_entry_follows_the_nearest_older_one() -> None:
    rccl = entry("2.2", 'after = "nccl-2.1"', library="rccl")
    table = read(FIRST, entry("2.3", 'after = "nccl-2.1"'), rccl)
    followed = {
        name: nearest(table, *name.split("-"))
        for name in ("nccl-2.0", "nccl-2.1", "nccl-2.2.9", "nccl-2.3", "nccl-3.0", "rccl-9.9")
    }
    assert [f"{found.library}-{found.number}" for found in followed.values()] == [
        *("nccl-2.1", "nccl-2.1", "nccl-2.1", "nccl-2.3", "nccl-2.3", "rccl-2.2")
    ]


def test_the_table_of_changes_names_every_version_and_what_it_changed() -> None:
    found = changes()
    assert {f"{version.library}-{version.number}" for version in versions()} <= found.keys()
    everything = {"graph and transports": ("everything",), "tuning": ("everything",)}
    assert found["nccl-2.18.1"] == everything
    assert found["nccl-2.22.3"] == {
        "graph and transports": ("fuses", "cpu_search"),
        "search": ("nvls_heads",),
        "tuning": (
            *("ring_fallback", "nvls_raises", "nvls_all_gather", "tiny_correction"),
            *("schedule", "cell_traffic"),
        ),
    }
    assert len(lines()) == len(versions()) + len(search_versions()) + len(tuning_versions())
    assert "nccl-2.19.3  graph and transports  nothing" in lines()


@pytest.mark.parametrize(
    ("name", "whole"),
    [
        ("2.21", "2.21.5"),
        ("nccl-2.21", "nccl-2.21.5"),
        ("rccl-2.21", "rccl-2.21.5"),
        ("2.21.5", "2.21.5"),
        ("2.99", "2.99"),
        ("nonsense", "nonsense"),
    ],
)
def test_a_version_of_two_parts_is_the_newest_known_of_its_line(name: str, whole: str) -> None:
    assert whole_version(name) == whole
    assert bool(taken_for(name, whole)) is (name != whole)


def test_every_known_version_is_meant_by_itself_and_the_newest_by_its_line() -> None:
    newest = {(one.library, numbers(one.number)[:2]): one.number for one in versions()}
    for one in versions():
        assert whole_version(f"{one.library}-{one.number}") == f"{one.library}-{one.number}"
        line = ".".join(map(str, numbers(one.number)[:2]))
        meant = newest[one.library, numbers(one.number)[:2]]
        assert whole_version(f"{one.library}-{line}") == f"{one.library}-{meant}"


def test_what_is_known_of_the_newest_versions() -> None:
    """RCCL 2.30.4 (its CHANGELOG, graph/paths.cc); of NCCL 2.32.6 nothing was at hand."""
    rccl, _ = version_for("rccl-2.30.4")
    nccl, _ = version_for("nccl-2.30.3")
    assert (rccl.pxn_c2c, rccl.pxn_needs_gdr, nccl.pxn_c2c) == (0, True, 1)
    assert "RCCL_DDA_ENABLE" in rccl.beside
    assert not nccl.beside
    shown = DemoFeed("mi300x-8").at(0)
    said = {
        name: predict(shown, library=f"rccl-{name}").assumptions for name in ("2.28.3", "2.30.4")
    }
    assert rccl.beside in said["2.30.4"]
    assert not any("go around rings" in text for text in said["2.28.3"])
    assert version_for("nccl-2.32.6")[1] == (
        "no rules for NCCL 2.32.6: those of 2.32.3, the nearest older"
    )
