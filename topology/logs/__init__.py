"""The debug output of NCCL and RCCL: reads, explains and compares it with a prediction."""
