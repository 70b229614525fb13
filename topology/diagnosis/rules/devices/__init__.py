"""Rules about the GPUs themselves and their driver."""
