"""The differential suite: the same statements on plain PostgreSQL and on herds, compared in all a client can see."""
