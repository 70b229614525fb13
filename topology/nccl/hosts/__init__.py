"""Predictions of NCCL or RCCL over many equal hosts: rings, trees, rails, and a missing NIC."""
