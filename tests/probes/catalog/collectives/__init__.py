"""Tests of probes/catalog/collectives."""
