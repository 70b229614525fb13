"""What is run by hand, and not by the gate: records, benchmarks, and tries that take hours.

`python -m tests.harness.NAME` starts one; CONTRIBUTING.md says which to run after which change.
"""
