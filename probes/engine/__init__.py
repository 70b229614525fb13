"""Copies and kernels on GPUs through the driver's own C interface, without torch."""
