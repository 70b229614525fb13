"""Print the score of every thread, or of those of a round."""

from __future__ import annotations

import argparse

from tests.threads.rounds import round_table
from tests.threads.scoring import table

if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--round", type=int, help="number of a folder round-N")
    number = options.parse_args().round
    print(table() if number is None else round_table(number))
