"""The application for measurements, through psycopg: every report and every change as on one PostgreSQL."""

import psycopg
import pytest

from .pairs import Pair
from .programs import devices

pytestmark = pytest.mark.xdist_group("devices")
REFUSED = {"old ones go by place and table": "tableoid of a distributed table"}


@pytest.fixture(scope="module")
def filled(oracle, herd):
    made = Pair(oracle, herd, "devices_read")
    made.run(devices.SCHEMA)
    made.distribute(devices.DISTRIBUTE)
    made.run(devices.ROWS)
    yield made
    made.close()


@pytest.mark.parametrize("name", devices.REPORTS)
def test_report(filled, name):
    query = devices.REPORTS[name]
    assert filled.same(query, ordered="ORDER BY" in query.rsplit(")", 1)[-1])


def test_changes(oracle, herd):
    pair = Pair(oracle, herd, "devices_write")
    try:
        pair.run(devices.SCHEMA)
        pair.distribute(devices.DISTRIBUTE)
        pair.run(devices.ROWS)
        for name, change in devices.CHANGES.items():
            if name in REFUSED:
                with pytest.raises(psycopg.errors.FeatureNotSupported, match=REFUSED[name]):
                    pair.herd.execute(change[0])
                continue
            pair.change(change)
            for table, columns in devices.TABLES.items():
                pair.same(f"SELECT {columns} FROM {table}")
    finally:
        pair.close()


def test_readings_by_copy_and_batches(filled):
    """As a collector sends them: COPY, executemany, and a pipeline; rolled back at the end."""
    rows = [(device, f"2026-06-01 00:{minute:02}:00+00", device * minute) for device in range(1, 29) for minute in range(60)]
    counts = []
    for connection in (filled.plain, filled.herd):
        with connection.transaction(force_rollback=True):
            with connection.cursor() as cursor:
                with cursor.copy("COPY readings (device_id, at, value) FROM STDIN") as copy:
                    for row in rows:
                        copy.write_row(row)
                more = [(device, f"2026-06-02 00:{minute:02}:00+00", None) for device, minute in ((d, m) for d in (1, 2, 3) for m in range(20))]
                cursor.executemany("INSERT INTO readings (device_id, at, value) VALUES (%s, %s, %s)", more)
                with connection.pipeline():
                    for device in range(1, 29):
                        cursor.execute("UPDATE readings SET quality = 2 WHERE device_id = %s AND at >= '2026-06-01'", (device,))
            counts.append(connection.execute("SELECT device_id, quality, count(*), sum(value), max(at) FROM readings GROUP BY 1, 2 ORDER BY 1, 2").fetchall())
    assert counts[0] == counts[1] and len(counts[0]) > 28
