"""Jobs of two ranks that are healthy or sick in a known way, and what is said of them meanwhile.

Hand-run on a machine with two GPUs, PyTorch and gputop; nothing here is part of the gate.
"""
