"""What a node tells a monitoring system: series of numbers with labels."""
