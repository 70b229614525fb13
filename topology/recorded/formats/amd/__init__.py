"""What AMD's tools print."""
