"""What several rules need; no rule stands here."""
