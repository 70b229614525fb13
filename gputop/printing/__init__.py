"""From pages to lines: one renderer for terminals and screens."""
