"""The page that gathers the pictures: a screen a chapter, a demo a row, a size a column."""

from __future__ import annotations

from gputop.screens import NAMES

from .fleet import KEYS as FLEET_TABS
from .scenes import DEMOS, SIZES

HEAD = """# Every screen, at three sizes

Drawn by `python -m tests.pictures` from demos after twenty seconds of made-up life.
Nothing here was measured.
"""
WIDTH = 320


def page() -> str:
    """The page as Markdown."""
    parts = [HEAD]
    for name in NAMES:
        parts.append(f"## {name.capitalize()}\n")
        parts.append("| | " + " | ".join(f"{wide}x{high}" for wide, high in SIZES) + " |")
        parts.append("|---" * (len(SIZES) + 1) + "|")
        for demo in DEMOS:
            files = [f"{demo}-{name}-{wide}x{high}.svg" for wide, high in SIZES]
            cells = [
                f'<a href="{file}"><img src="{file}" width="{WIDTH}" alt="{name} of {demo}"></a>'
                for file in files
            ]
            parts.append(f"| {demo} | " + " | ".join(cells) + " |")
        parts.append("")
    parts.append(
        "## Fleet\n\nOf `gputop fleet checks`: 34 made-up nodes, two of which wrote nothing.\n"
    )
    parts.append("| | " + " | ".join(f"{wide}x{high}" for wide, high in SIZES) + " |")
    parts.append("|---" * (len(SIZES) + 1) + "|")
    for tab in FLEET_TABS:
        cells = [
            f'<a href="{file}"><img src="{file}" width="{WIDTH}" alt="{tab} of a fleet"></a>'
            for file in (f"fleet-{tab}-{wide}x{high}.svg" for wide, high in SIZES)
        ]
        parts.append(f"| {tab} | " + " | ".join(cells) + " |")
    parts.append("")
    return "\n".join(parts)
