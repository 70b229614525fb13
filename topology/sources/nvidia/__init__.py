"""NVIDIA's management library: asked, and its answers understood."""
