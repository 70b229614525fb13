"""The share of `tests/harness/engines` that the gate runs, and the tests of its parts."""
