"""Print the score of every thread, of those of a round, or of the cases of captures/first-look."""

from __future__ import annotations

import argparse

from tests.threads.first_look import INNOCENT, first_look_scores
from tests.threads.rounds import round_table, score_table
from tests.threads.scoring import table


def _first_look() -> str:
    """The table of the 29 cases, and that of the variants in which the named line is not guilty."""
    scores = first_look_scores()
    cases = {name: one for name, one in scores.items() if not name.startswith(INNOCENT)}
    beside = {name: one for name, one in scores.items() if name.startswith(INNOCENT)}
    return f"{score_table(cases)}\n\n{score_table(beside)}"


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--round", type=int, help="number of a folder round-N")
    options.add_argument("--first-look", action="store_true", help="the cases of the captures")
    given = options.parse_args()
    if given.first_look:
        print(_first_look())
    else:
        print(table() if given.round is None else round_table(given.round))
