"""What NCCL or RCCL does over many equal hosts: rings, trees, rails, and a missing NIC."""
