"""Draws every screen of some demos into docs/pictures, and the page that gathers them."""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.support.places import ROOT

from .fleet import fleet_screens
from .page import page
from .scenes import DEMOS, SIZES, screens
from .svg import svg_of


def draw_fleet(folder: Path) -> None:
    """Draw every tab of the Fleet screen, and write the page."""
    with TemporaryDirectory() as checks:
        for wide, high in SIZES:
            for name, rows in asyncio.run(fleet_screens(Path(checks), (wide, high))).items():
                file = folder / f"fleet-{name}-{wide}x{high}.svg"
                file.write_text(svg_of(rows, f"{name} of a fleet, {wide}x{high}"), "utf-8")
            print(f"fleet {wide}x{high}", flush=True)
    (folder / "README.md").write_text(page(), "utf-8")


def main() -> int:
    """Draw what is asked for; the page is written when everything is drawn."""
    parser = argparse.ArgumentParser(prog="python -m tests.pictures")
    parser.add_argument("--folder", type=Path, default=ROOT / "docs" / "pictures")
    parser.add_argument("--demo", nargs="+", choices=DEMOS, default=DEMOS)
    parser.add_argument("--fleet", action="store_true", help="draw the Fleet screen alone")
    given = parser.parse_args()
    if given.fleet:
        given.demo = ()
    given.folder.mkdir(parents=True, exist_ok=True)
    for demo in given.demo:
        for wide, high in SIZES:
            for name, rows in asyncio.run(screens(demo, (wide, high))).items():
                file = given.folder / f"{demo}-{name}-{wide}x{high}.svg"
                file.write_text(svg_of(rows, f"{name} of {demo}, {wide}x{high}"), "utf-8")
            print(f"{demo} {wide}x{high}", flush=True)
    if tuple(given.demo) == DEMOS or given.fleet:
        draw_fleet(given.folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
