"""What draws; each widget gets its data from the screen it sits on."""
