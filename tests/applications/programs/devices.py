"""An application for measurements of devices: readings come in all the time, hourly summaries are made of them."""

SCHEMA = """
CREATE TABLE kinds (code text PRIMARY KEY, unit text NOT NULL, low float8, high float8);
CREATE TABLE devices (id int PRIMARY KEY, name text NOT NULL, kind text NOT NULL REFERENCES kinds (code), site text, since date NOT NULL, labels jsonb NOT NULL DEFAULT '{}');
CREATE TABLE readings (device_id int NOT NULL REFERENCES devices (id), at timestamptz NOT NULL, value numeric(10, 3), quality smallint NOT NULL DEFAULT 0,
    PRIMARY KEY (device_id, at));
CREATE INDEX readings_at ON readings (at);
CREATE TABLE hourly (device_id int NOT NULL, hour timestamptz NOT NULL, n bigint NOT NULL, low numeric, high numeric, mean numeric, PRIMARY KEY (device_id, hour));
CREATE TABLE alarms (id bigserial, device_id int NOT NULL, at timestamptz NOT NULL, what text NOT NULL, seen boolean NOT NULL DEFAULT false, PRIMARY KEY (device_id, id));
"""

DISTRIBUTE = """
SELECT create_reference_table('kinds');
ALTER TABLE readings DROP CONSTRAINT readings_device_id_fkey;
SELECT create_distributed_table('devices', 'id', shard_count => 6);
SELECT create_distributed_table('readings', 'device_id', colocate_with => 'devices');
SELECT create_distributed_table('hourly', 'device_id', colocate_with => 'devices');
SELECT create_distributed_table('alarms', 'device_id', colocate_with => 'devices');
ALTER TABLE readings ADD FOREIGN KEY (device_id) REFERENCES devices (id);
"""

_FROM = "timestamptz '2026-05-01 00:00:00+00'"

ROWS = f"""
INSERT INTO kinds VALUES ('t', '°C', -20, 35), ('h', '%', 10, 90), ('p', 'hPa', 950, 1050);
INSERT INTO devices SELECT i, 'device ' || i, (ARRAY['t', 'h', 'p'])[1 + i % 3], CASE WHEN i % 5 > 0 THEN 'site ' || i % 5 END, date '2025-01-01' + i, jsonb_build_object('floor', i % 4)
    FROM generate_series(1, 30) i;
INSERT INTO readings SELECT d, {_FROM} + n * interval '7 minutes', CASE WHEN (d + n) % 17 > 0 THEN ((d * 31 + n * 17) % 997) / 10.0 END, CASE WHEN (d * n) % 23 = 0 THEN 1 ELSE 0 END
    FROM generate_series(1, 28) d, generate_series(0, 199) n;
INSERT INTO alarms (device_id, at, what) SELECT device_id, at, 'quality' FROM readings WHERE quality = 1 ORDER BY device_id, at;
"""

REPORTS = {
    "the last value of each device": "SELECT DISTINCT ON (device_id) device_id, at, value FROM readings ORDER BY device_id, at DESC",
    "the last value, lateral": "SELECT d.id, d.name, r.at, r.value FROM devices d LEFT JOIN LATERAL (SELECT at, value FROM readings WHERE device_id = d.id ORDER BY at DESC LIMIT 1) r ON true ORDER BY d.id",
    "the last value, by subqueries": "SELECT d.id, (SELECT value FROM readings r WHERE r.device_id = d.id ORDER BY at DESC LIMIT 1) FROM devices d ORDER BY d.id",
    "hours": "SELECT date_trunc('hour', at) AS hour, count(*), round(avg(value), 4), min(value), max(value) FROM readings GROUP BY 1 ORDER BY 1",
    "hours of each device": "SELECT device_id, date_trunc('hour', at) AS hour, count(value), round(avg(value), 4) FROM readings GROUP BY 1, 2 ORDER BY 1, 2",
    "bins of a quarter": "SELECT date_bin('15 minutes', at, '2026-01-01 00:00+00') AS bin, sum(value) FROM readings WHERE device_id IN (1, 2, 3) GROUP BY bin ORDER BY bin",
    "hours without gaps": """SELECT h, count(r.value), round(avg(r.value), 4) FROM generate_series(timestamptz '2026-05-01 00:00+00', '2026-05-02 12:00+00', interval '1 hour') h
        LEFT JOIN readings r ON r.at >= h AND r.at < h + interval '1 hour' AND r.device_id = 5 GROUP BY h ORDER BY h""",
    "hours without gaps, all devices": """SELECT d.id, h, count(r.value) FROM devices d CROSS JOIN generate_series(timestamptz '2026-05-01 00:00+00', '2026-05-01 04:00+00', interval '1 hour') h
        LEFT JOIN readings r ON r.device_id = d.id AND date_trunc('hour', r.at) = h GROUP BY d.id, h ORDER BY d.id, h""",
    "out of range": "SELECT d.id, r.at, r.value, k.unit FROM readings r JOIN devices d ON d.id = r.device_id JOIN kinds k ON k.code = d.kind WHERE r.value NOT BETWEEN k.low AND k.high AND d.kind = 't' ORDER BY d.id, r.at LIMIT 20",
    "differences": "SELECT device_id, at, value - lag(value) OVER (PARTITION BY device_id ORDER BY at) AS step FROM readings WHERE device_id < 4 ORDER BY device_id, at",
    "moving average": "SELECT device_id, at, round(avg(value) OVER (PARTITION BY device_id ORDER BY at ROWS BETWEEN 3 PRECEDING AND CURRENT ROW), 4) FROM readings WHERE at < '2026-05-01 02:00+00' ORDER BY 1, 2",
    "moving average over all": "SELECT hour, round(avg(v) OVER (ORDER BY hour ROWS 2 PRECEDING), 4) FROM (SELECT date_trunc('hour', at) AS hour, avg(value) AS v FROM readings GROUP BY 1) x ORDER BY hour",
    "above the average of all": "SELECT device_id, count(*) FROM readings WHERE value > (SELECT avg(value) FROM readings) GROUP BY device_id ORDER BY 1",
    "above the own average": "SELECT device_id, count(*) FROM readings r WHERE value > (SELECT avg(value) FROM readings WHERE device_id = r.device_id) GROUP BY device_id ORDER BY 1",
    "silent devices": "SELECT id FROM devices d WHERE NOT EXISTS (SELECT 1 FROM readings r WHERE r.device_id = d.id AND r.at > '2026-05-01 12:00+00') ORDER BY id",
    "longest gaps": """SELECT device_id, max(at - before) FROM (SELECT device_id, at, lag(at) OVER (PARTITION BY device_id ORDER BY at) AS before FROM readings WHERE value IS NOT NULL) g GROUP BY device_id ORDER BY 2 DESC, 1 LIMIT 5""",
    "percentiles": "SELECT d.kind, percentile_disc(ARRAY[0.5, 0.95]) WITHIN GROUP (ORDER BY value) FROM readings r JOIN devices d ON d.id = r.device_id GROUP BY d.kind ORDER BY 1",
    "sites": "SELECT coalesce(site, 'nowhere'), count(DISTINCT d.id), count(r.at) FROM devices d LEFT JOIN readings r ON r.device_id = d.id GROUP BY 1 ORDER BY 1",
    "sites with the worst": "SELECT site, id FROM devices d WHERE id = (SELECT r.device_id FROM readings r JOIN devices x ON x.id = r.device_id WHERE x.site = d.site ORDER BY r.value DESC NULLS LAST, r.device_id LIMIT 1) ORDER BY 1",
    "alarms by device": "SELECT d.name, count(a.id) FROM devices d LEFT JOIN alarms a ON a.device_id = d.id AND NOT a.seen GROUP BY d.id ORDER BY count(a.id) DESC, d.id LIMIT 10",
    "alarms near each other": "SELECT a.device_id, b.device_id, a.at FROM alarms a JOIN alarms b ON b.at = a.at AND b.device_id > a.device_id ORDER BY 3, 1, 2 LIMIT 20",
    "value before the alarm": "SELECT a.device_id, a.at, (SELECT value FROM readings r WHERE r.device_id = a.device_id AND r.at < a.at ORDER BY at DESC LIMIT 1) FROM alarms a ORDER BY 1, 2",
    "floors": "SELECT labels->'floor', round(avg(value), 5) FROM devices JOIN readings ON device_id = id GROUP BY 1 ORDER BY 1",
    "histogram": "SELECT width_bucket(value, 0, 100, 10) AS bucket, count(*) FROM readings GROUP BY bucket ORDER BY bucket NULLS LAST",
    "first and last": "SELECT device_id, (array_agg(value ORDER BY at))[1], (array_agg(value ORDER BY at DESC))[1] FROM readings GROUP BY device_id ORDER BY 1",
    "pivot": "SELECT date_trunc('hour', at) h, sum(value) FILTER (WHERE device_id = 1) AS one, sum(value) FILTER (WHERE device_id = 2) AS two FROM readings GROUP BY 1 ORDER BY 1",
    "cube": "SELECT d.kind, d.site, count(*) FROM readings r JOIN devices d ON d.id = r.device_id GROUP BY CUBE (d.kind, d.site) ORDER BY 1 NULLS LAST, 2 NULLS LAST, 3",
    "islands": """SELECT device_id, min(at), max(at), count(*) FROM (SELECT device_id, at, row_number() OVER (PARTITION BY device_id ORDER BY at) - row_number() OVER (PARTITION BY device_id, value IS NULL ORDER BY at) AS island, value IS NULL AS gone FROM readings) x
        WHERE gone GROUP BY device_id, island ORDER BY 1, 2""",
    "compared with the hour before": """WITH h AS (SELECT device_id, date_trunc('hour', at) AS hour, avg(value) AS v FROM readings GROUP BY 1, 2)
        SELECT a.device_id, a.hour, round(a.v - b.v, 4) FROM h a JOIN h b ON b.device_id = a.device_id AND b.hour = a.hour - interval '1 hour' ORDER BY 1, 2""",
    "units": "SELECT k.code, k.unit, (SELECT count(*) FROM devices WHERE kind = k.code) FROM kinds k ORDER BY 1",
}

_HOURLY = "SELECT device_id, date_trunc('hour', at), count(*), min(value), max(value), avg(value) FROM readings"

CHANGES = {
    "hours anew": ["TRUNCATE hourly", f"INSERT INTO hourly {_HOURLY} GROUP BY 1, 2"],
    "hours since": [f"INSERT INTO hourly {_HOURLY} WHERE at >= '2026-05-01 10:00+00' GROUP BY 1, 2 ON CONFLICT (device_id, hour) DO UPDATE SET n = excluded.n, low = excluded.low, high = excluded.high, mean = excluded.mean WHERE hourly.n <> excluded.n"],
    "readings come": ["INSERT INTO readings (device_id, at, value) SELECT id, '2026-05-03 00:00+00', id FROM devices ON CONFLICT DO NOTHING"],
    "the same readings come": ["INSERT INTO readings (device_id, at, value) VALUES (1, '2026-05-03 00:00+00', 5), (2, '2026-05-03 00:00+00', 6) ON CONFLICT (device_id, at) DO UPDATE SET value = excluded.value"],
    "old ones go": ["DELETE FROM readings WHERE at < '2026-05-01 01:00+00'"],
    "old ones go in batches": ["DELETE FROM readings WHERE (device_id, at) IN (SELECT device_id, at FROM readings ORDER BY at, device_id LIMIT 50)"],
    "old ones go by place": ["DELETE FROM readings WHERE ctid IN (SELECT ctid FROM readings ORDER BY at, device_id LIMIT 50)"],
    "old ones go by place and table": ["DELETE FROM readings WHERE (tableoid, ctid) IN (SELECT tableoid, ctid FROM readings ORDER BY at, device_id LIMIT 50)"],
    "alarms are seen": ["UPDATE alarms SET seen = true WHERE id IN (SELECT id FROM alarms WHERE NOT seen ORDER BY at, device_id LIMIT 10)"],
    "alarms of the range": ["INSERT INTO alarms (device_id, at, what) SELECT r.device_id, r.at, 'range' FROM readings r JOIN devices d ON d.id = r.device_id JOIN kinds k ON k.code = d.kind WHERE r.value > k.high AND k.code = 'h'"],
    "devices without readings": ["DELETE FROM devices WHERE id NOT IN (SELECT device_id FROM readings)"],
    "labels from the hours": ["UPDATE devices d SET labels = d.labels || jsonb_build_object('hours', h.n) FROM (SELECT device_id, count(*) AS n FROM hourly GROUP BY device_id) h WHERE h.device_id = d.id"],
    "the site of the greatest": ["UPDATE devices SET site = 'best' WHERE id = (SELECT device_id FROM readings ORDER BY value DESC NULLS LAST, device_id, at LIMIT 1)"],
    "values smoothed": ["UPDATE readings r SET value = s.v FROM (SELECT device_id, at, avg(value) OVER (PARTITION BY device_id ORDER BY at ROWS 1 PRECEDING) AS v FROM readings) s WHERE s.device_id = r.device_id AND s.at = r.at AND r.value IS NULL"],
    "a table for the report": ["CREATE TABLE report AS SELECT kind, count(*) AS n FROM devices GROUP BY kind", "UPDATE report SET n = n + (SELECT count(*) FROM readings r JOIN devices d ON d.id = r.device_id WHERE d.kind = report.kind)", "INSERT INTO hourly SELECT 1000 + n + length(kind) * 7 + ascii(kind), '2026-05-01 00:00+00', 1, 0, 0, 0 FROM report", "DROP TABLE report"],
}

# `alarms.id` comes from a sequence: which row has which number is any.
TABLES = {"kinds": "*", "devices": "*", "readings": "*", "hourly": "*", "alarms": "device_id, at, what, seen"}
