"""Print the score of every thread."""

from __future__ import annotations

from tests.threads.scoring import table

if __name__ == "__main__":
    print(table())
