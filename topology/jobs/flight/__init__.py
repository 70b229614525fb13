"""Dumps of PyTorch's flight recorder: found, read without pickle, and compared between ranks."""
