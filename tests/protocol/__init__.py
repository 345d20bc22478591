"""The protocol at the level of single bytes: the same frames to plain PostgreSQL and to the herd, the answers compared."""
