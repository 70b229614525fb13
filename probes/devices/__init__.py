"""The devices of probes: GPUs with their copies, kernels and sensors, and host memory."""
