"""Tests of topology/nccl/system."""
