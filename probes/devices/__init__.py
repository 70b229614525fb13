"""Devices as probes handle them: GPUs, their copies, kernels and sensors; the host's memory."""
