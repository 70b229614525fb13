"""The decisions of NCCL and RCCL on a node, and why: a snapshot becomes a system and decisions."""
