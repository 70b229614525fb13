"""Rules about the machine around the GPUs."""
