"""The printers of pages: one for the terminal, one for the screen."""
