"""Vendors' libraries that stand in below the real bindings, and fail, block or lie on demand."""
