"""Which algorithm and protocol a collective of a size gets, and the time NCCL's model gives it."""
