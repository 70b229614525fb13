"""The widgets; each gets its data from the screen that it is on."""
