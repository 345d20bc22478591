#!/usr/bin/env bash
# Starts a herd of 2 nodes, runs W1, W2 and W4 in small through psql and pgbench, and says how to connect.
set -euo pipefail
dir="${HERD_DEMO_DIR:-.herd-demo}"
port="${HERD_DEMO_PORT:-6700}"
"$HERD" up --dir "$dir" --port "$port"
sql() { "$HERD" psql --dir "$dir" -X -q -v ON_ERROR_STOP=1 "$@"; }

echo "== W1: single-row inserts over 32 shards"
sql <<'SQL'
SET client_min_messages = warning;
DROP TABLE IF EXISTS sbtest1;
DROP TABLE IF EXISTS demo;
CREATE TABLE sbtest1 (id integer NOT NULL, k integer NOT NULL DEFAULT 0,
    c character(120) NOT NULL DEFAULT '', pad character(60) NOT NULL DEFAULT '', PRIMARY KEY (id));
CREATE INDEX k_1 ON sbtest1 (k);
SELECT create_distributed_table('sbtest1', 'id');
\timing on
INSERT INTO sbtest1 SELECT g, g % 1000, md5(g::text), 'pad' FROM generate_series(1, 100000) g;
INSERT INTO sbtest1 VALUES (100001, 1, 'c', 'pad');
SQL

echo "== W2: aggregates over all shards"
sql <<'SQL'
\timing on
SELECT count(1) FROM sbtest1;
SELECT count(1), min(k), max(k), sum(k) FROM sbtest1;
SELECT count(1), min(k), max(k), sum(k) FROM sbtest1 WHERE c LIKE '1%';
SELECT id FROM sbtest1 WHERE c LIKE '1%' ORDER BY c OFFSET 100 LIMIT 10;
SELECT id FROM sbtest1 WHERE c LIKE '1%' ORDER BY id OFFSET 100 LIMIT 10;
SQL

echo "== W4: many rows in one statement"
sql <<'SQL'
CREATE TABLE demo (id int PRIMARY KEY, a int, b int, c int, d int);
SELECT create_distributed_table('demo', 'id');
\timing on
INSERT INTO demo SELECT generate_series(1, 100000), 0, 0, 0, 0;
SELECT count(*) FROM demo;
SQL

echo
echo "The herd is up: postgresql://postgres@127.0.0.1:$port/postgres"
echo "  $HERD psql --dir $dir        # connect"
echo "  $HERD down --dir $dir        # stop it"
