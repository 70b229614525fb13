"""The rules about what was measured."""
