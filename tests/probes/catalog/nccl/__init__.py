"""Tests of probes/catalog/nccl."""
