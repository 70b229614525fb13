"""Rules about the memory of the GPUs."""
