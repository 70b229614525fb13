"""Score the cases of captures/first-look, whose texts stay outside the repository."""

from __future__ import annotations

from pathlib import Path

import msgspec

from gputop.topology.toml import tomllib
from tests.support.places import CAPTURES
from tests.threads.rounds import Expected, RoundScore, scored
from tests.threads.scoring import HERE

CASES = CAPTURES / "first-look"
INNOCENT = "innocent/"
"""How the names of the variants begin that are beside the 29 cases."""


def first_look_expected() -> dict[str, Expected]:
    """What is expected of each case, by its path below captures/first-look."""
    found = tomllib.loads((HERE / "first_look.toml").read_text())
    return {name: msgspec.convert(fields, Expected) for name, fields in found.items()}


def first_look_scores() -> dict[str, RoundScore]:
    """The scores of all cases by their names."""
    return {
        name: scored(expected, _texts(CASES / name))
        for name, expected in first_look_expected().items()
    }


def _texts(place: Path) -> tuple[Path, ...]:
    return tuple(sorted(place.glob("*.txt"))) if place.is_dir() else (place,)
