"""Output of AMD's tools."""
