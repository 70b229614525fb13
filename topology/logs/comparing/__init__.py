"""Comparing a debug log with the prediction for the same GPUs."""
