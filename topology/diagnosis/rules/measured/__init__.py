"""Rules about figures that probes measured."""
