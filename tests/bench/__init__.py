"""The share of `tests/harness/bench` that the gate runs, and the tests of its parts."""
