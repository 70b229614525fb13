"""The variables that change the behaviour of NCCL, RCCL and the programs around them."""
