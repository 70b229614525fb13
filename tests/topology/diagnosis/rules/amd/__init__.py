"""The rules about amd."""
