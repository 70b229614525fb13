"""Writes docs/figures.md: how many sourced figures there are, model by model."""

from __future__ import annotations

from pathlib import Path

from gputop.topology.hardware.specs import own_skus
from gputop.topology.hardware.statements import backing, counted, figures_of, statements

PAGE = Path(__file__).parents[2] / "docs" / "figures.md"


def page() -> str:
    """The page: totals, then one row for each model."""
    total = counted()
    lines = [
        "# Figures with a source",
        "",
        "Written by `python -m tests.support.figure_counts`. `gputop about NAME` shows them.",
        "",
        f"- {total.stated + total.measured} figures with a source: {total.stated} statements of "
        f"data sheets (one for each source), {total.measured} measured or set as a pass line.",
        f"- Of the facts of data sheets, {total.borne_out} are borne out by two sources or more, "
        f"{total.single} by one; these and those without any on record are marked `~`, or `?` "
        "where nothing that was read confirms them.",
        "",
        "| model | statements | measured | facts | two sources |",
        "|---|---|---|---|---|",
    ]
    for name, model in own_skus().items():
        facts = list(figures_of(name))
        both = sum(backing(name, *fact).enough for fact in facts)
        counts = (len(statements(name)), len(model.figures), len(facts), both)
        lines.append(f"| {name} | {' | '.join(map(str, counts))} |")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
