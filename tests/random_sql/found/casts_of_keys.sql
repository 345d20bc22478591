-- Casts that change what a constant's text means for the key: in reads, writes and INSERT.
--! {"setup": true}
create table "kt" ("k" text primary key, "n" int4);
--! {"setup": true}
create table "kz" ("k" timestamptz primary key, "n" int4);
--! {"setup": true}
create table "ks" ("k" timestamp primary key, "n" int4);
--! {"setup": true}
create table "kn" ("k" numeric primary key, "n" int4);
--! {"setup": true}
create table "kv" ("k" varchar primary key, "n" int4);
--! {"herd_only": true, "setup": true}
select create_distributed_table('"kt"', 'k');
--! {"herd_only": true, "setup": true}
select create_distributed_table('"kz"', 'k');
--! {"herd_only": true, "setup": true}
select create_distributed_table('"ks"', 'k');
--! {"herd_only": true, "setup": true}
select create_distributed_table('"kn"', 'k');
--! {"herd_only": true, "setup": true}
select create_distributed_table('"kv"', 'k');
--! {"writes": true}
insert into "kt" values ('a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', 1), ('2020-01-01', 2), ('\x616263', 3), ('2020-01-01 00:00:00', 4), ('5', 5);
--! {"writes": true}
insert into "kz" values ('2020-01-01 00:00', 1), ('2020-01-01 10:00', 2), ('2020-01-01 10:00+05', 3), ('2020-02-01 00:00', 4);
--! {"writes": true}
insert into "ks" values ('2020-01-01 00:00', 1), ('2020-01-01 10:00', 2), ('2020-02-01 00:00', 3);
--! {"writes": true}
insert into "kn" values (5, 1), (5.5, 2), (6, 3), (7.25, 4);
--! {"writes": true}
insert into "kv" values ('a', 1), ('b', 2), ('a ', 3);
--! {}
select * from "kt" where "k" = 'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'::uuid::text;
--! {}
select * from "kt" where "k" = '2020-1-1'::date::text;
--! {}
select * from "kt" where "k" = 'abc'::bytea::text;
--! {}
select * from "kt" where "k" = '2020-01-01 00:00'::timestamp::text;
--! {}
select * from "kt" where "k" = ' 5'::int4::text or "k" = '5'::text::varchar;
--! {}
select * from "kt" where "k" = any(array['A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11']::uuid[]::text[]);
--! {}
select * from "kt" where "k" in ('A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'::uuid::text, '2020-1-1'::date::text);
--! {}
select * from "kz" where "k" = '2020-01-01 10:00'::date;
--! {}
select * from "kz" where "k" = '2020-01-01 10:00+05'::timestamp;
--! {}
select * from "kz" where "k" = '2020-01-01 10:00+05'::timestamptz;
--! {}
select * from "ks" where "k" = '2020-01-01 10:00'::date;
--! {}
select * from "ks" where "k" = '2020-01-01 10:00'::date::timestamp;
--! {}
select * from "ks" where "k" = '2020-01-01 10:00'::timestamp;
--! {}
select * from "kn" where "k" = 5.5::int4;
--! {}
select * from "kn" where "k" = 5.5::int8 or "k" = 5::int2;
--! {}
select * from "kn" where "k" = 5::int4;
--! {}
select * from "kn" where "k" = any(array[5.5, 7.25]::int4[]);
--! {}
select * from "kn" where "k" = '5.5'::int4;
--! {}
select * from "kv" where "k" = 'a'::text;
--! {}
select * from "kv" where "k" = 'a '::varchar::text;
--! {"writes": true}
update "kt" set "n" = 70 where "k" = 'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'::uuid::text;
--! {"writes": true}
update "kz" set "n" = 70 where "k" = '2020-01-01 10:00'::date;
--! {"writes": true}
delete from "kn" where "k" = 5.5::int4;
--! {"writes": true}
delete from "ks" where "k" = '2020-01-01 10:00'::date::timestamp;
--! {"writes": true}
insert into "kt" values ('B0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'::uuid::text, 7), ('C0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'::uuid, 8), ('2021-1-1'::date, 9), (8.5::int4, 10), ('9'::int8, 11);
--! {"writes": true}
insert into "kt" values ('D0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'::uuid::text, 7);
--! {"writes": true}
insert into "kt" values ('E0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'::uuid, 7);
--! {"writes": true}
insert into "kz" values ('2021-01-01 10:00'::date, 5);
--! {"writes": true}
insert into "kz" values ('2022-01-01 10:00+05'::timestamp, 6), ('2022-01-01 10:00+05'::timestamptz, 7);
--! {"writes": true}
insert into "ks" values ('2021-01-01 10:00'::date, 5), ('2022-01-01 10:00'::date::timestamp, 6);
--! {"writes": true}
insert into "kn" values (8.5::int4, 5), (10.5::int8, 6), (11::int2, 7);
--! {"writes": true}
insert into "kn" values (12.5::int8, 6);
