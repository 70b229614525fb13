"""The variables that change what NCCL, RCCL and the programs around them do."""
