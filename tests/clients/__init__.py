"""Real clients: each does with its driver what applications do with it."""
