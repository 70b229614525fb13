"""Why: what is known of a device, a pair or an edge, in plain words."""
