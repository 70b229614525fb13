"""Draws every screen of some demos into docs/pictures, and the page that gathers them."""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path

from tests.support.places import ROOT

from .page import page
from .scenes import DEMOS, SIZES, screens
from .svg import svg_of


def main() -> int:
    """Draw what is asked for; the page is written when everything is drawn."""
    parser = argparse.ArgumentParser(prog="python -m tests.pictures")
    parser.add_argument("--folder", type=Path, default=ROOT / "docs" / "pictures")
    parser.add_argument("--demo", nargs="+", choices=DEMOS, default=DEMOS)
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    for demo in given.demo:
        for wide, high in SIZES:
            for name, rows in asyncio.run(screens(demo, (wide, high))).items():
                file = given.folder / f"{demo}-{name}-{wide}x{high}.svg"
                file.write_text(svg_of(rows, f"{name} of {demo}, {wide}x{high}"), "utf-8")
            print(f"{demo} {wide}x{high}", flush=True)
    if tuple(given.demo) == DEMOS:
        (given.folder / "README.md").write_text(page(), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
