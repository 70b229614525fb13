"""What the tests of NCCL's decisions, logs and runs share."""
