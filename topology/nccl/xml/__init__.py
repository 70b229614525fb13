"""NCCL's topology XML: read, written, made from a machine and turned into one."""
