"""Rules about AMD GPUs and xGMI."""
