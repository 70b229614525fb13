"""Decisions that follow from a system: transports, graphs, timings, each with its reasons."""
