"""Tests of topology/nccl/search."""
