"""The share of `tests/harness/versions` that the gate runs, and the tests of its parts."""
