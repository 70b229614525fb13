"""The messages between app and worker, and what a probe declares about itself."""
