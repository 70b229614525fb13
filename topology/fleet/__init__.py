"""Many nodes as one answer: their files read, compared with each other, and judged."""
