"""Outputs of tools about RDMA devices, as people paste them."""
