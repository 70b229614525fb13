"""What the app and a worker say to each other, and what a probe says about itself."""
