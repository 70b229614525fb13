"""What a line about a failure proves: layer, operation, code, and who can be guilty."""
