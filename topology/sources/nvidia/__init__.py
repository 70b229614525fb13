"""NVIDIA's management library: the questions, and how its answers are understood."""
