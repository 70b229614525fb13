"""Training of two Llama-like models on two GPUs, for what `gputop cost` says before it.

Hand-run on a machine with two GPUs and PyTorch; nothing here is part of the gate.
"""
