-- What tools ask the system catalogs; one distributed table is one table.
--! include events
--! setup
create table cq_here (a int);
comment on table cq_here is 'local';
--! teardown
drop table if exists cq_here;
--! tests
select count(*) from pg_class where relname = 'events' and relnamespace = 'public'::regnamespace;
select table_name from information_schema.tables where table_schema = 'public' and table_name in ('events', 'items', 'kinds');
select column_name, data_type, is_nullable, ordinal_position from information_schema.columns where table_schema = 'public' and table_name = 'events';
select attname, format_type(atttypid, atttypmod), attnotnull from pg_attribute where attrelid = 'events'::regclass and attnum > 0;
select conname, contype from pg_constraint where conrelid = 'events'::regclass and contype = 'p';
select indexname from pg_indexes where schemaname = 'public' and tablename = 'events';
select 'events'::regclass::text, to_regclass('nosuch') is null;
select nspname from pg_namespace where nspname = 'public';
select datname from pg_database where datname = 'postgres';
select rolname from pg_roles where rolname = 'postgres';
select typname from pg_type where oid = 23;
select extname from pg_extension where extname = 'plpgsql';
select e.id, c.relname from events e join pg_class c on c.relname = 'events' where e.id = 1;
select pg_get_constraintdef(oid) from pg_constraint where conrelid = 'kinds'::regclass and contype = 'p';
select has_table_privilege('events', 'select');
-- rows vary
select pg_relation_size('events'), pg_total_relation_size('events') from pg_class limit 1;
select obj_description('events'::regclass, 'pg_class');
select pg_is_in_recovery();
select current_setting('is_superuser');
-- What home alone has is found by its name beside rows of all nodes.
select count(*) from events where to_regclass('cq_here') is not null;
select count(*) from events where to_regtype('cq_here') is null;
select count(*), count(to_regclass('cq_here')), count(to_regclass('events')) from events;
select count(*) from events where has_table_privilege('cq_here', 'select') and has_column_privilege('cq_here', 'a', 'select');
select count(*) from events where pg_relation_size('cq_here') = 0;
select count(distinct obj_description('cq_here'::regclass)) from events;
select count(*) from events where row_security_active('cq_here');
