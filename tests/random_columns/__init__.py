"""Random queries over column copies: what a herd answers with `herd.columns = on` is what plain PostgreSQL answers."""
