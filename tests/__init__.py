"""Tests; a package so that one file can share a stand-in with another."""
