"""Tests of topology/nccl/decide."""
