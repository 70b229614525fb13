"""What NCCL and RCCL decide on a node, and why: a snapshot becomes their system and decisions."""
