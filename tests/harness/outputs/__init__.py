"""What every command prints for every input at hand, written down and compared.

    python -m tests.harness.outputs record FOLDER
    python -m tests.harness.outputs compare BEFORE AFTER

A change that must not change what a user sees is recorded before and after. Captures that are no
part of the repository are read where GPUTOP_CAPTURES, or ../shared/captures, has them.
"""
