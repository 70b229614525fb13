"""What the commands and the screens cost on nodes of 8 to 128 GPUs.

    python -m tests.harness.bench
    python -m tests.harness.bench --gpus 8 128 --wiring pcie --only check

Not a test: run it by hand, on a machine that does nothing else.
"""
