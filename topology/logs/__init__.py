"""Debug output of NCCL and RCCL: read, explained, compared with a prediction."""
