"""Tests of probes/catalog/gemm."""
