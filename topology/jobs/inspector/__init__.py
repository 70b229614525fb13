"""NCCL's Inspector: what each operation of a rank took, and who waited for whom in it."""
