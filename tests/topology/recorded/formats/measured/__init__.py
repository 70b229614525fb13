"""Tests of topology/recorded/formats/measured."""
