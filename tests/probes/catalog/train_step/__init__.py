"""Tests of probes/catalog/train_step."""
