-- Restore points that were asked for. A name is used once, even where its point was made on some nodes only: a server that is restored stops
-- at the first point of the name.
CREATE TABLE IF NOT EXISTS herd.restore_point (
    name     text PRIMARY KEY,
    -- By the nodes' names, where the point is in their WAL; none as long as it is not on all of them.
    places   jsonb,
    asked_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE herd.restore_point IS 'the restore points of the herd, and where in each node''s WAL they are';

