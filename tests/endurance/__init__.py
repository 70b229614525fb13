"""The share of `tests/harness/endurance` that the gate runs, and the tests of its parts."""
