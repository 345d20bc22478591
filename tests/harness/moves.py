"""What moves of shards make on nodes while they go on, and must not leave there. It does not know which node is asked."""

LEFT_ON_NODES = """
    select 'slot', slot_name::text from pg_replication_slots union all select 'publication', pubname from pg_publication
     union all select 'subscription', subname from pg_subscription union all select 'table', oid::regclass::text from pg_class where relname like 'herd_moving%'
"""
JOBS_RUNNING = "select 'job', about from herd.job where state = 'running'"
