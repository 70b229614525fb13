"""Two versions of NCCL or RCCL on one node: what differs, and which rule makes the difference."""
