-- The style of statements that object-relational mappers and drivers send.

-- Django
SELECT "auth_user"."id", "auth_user"."username" FROM "auth_user" WHERE ("auth_user"."is_active" AND UPPER("auth_user"."username"::text) LIKE UPPER('%o''brien%')) ORDER BY "auth_user"."id" ASC LIMIT 21;
INSERT INTO "shop_item" ("name", "price", "created", "data") VALUES ('Tèst – ☃', '12.50'::numeric, '2026-11-21T08:00:00+00:00'::timestamptz, '{"a": [1, 2], "b?": null}'::jsonb) RETURNING "shop_item"."id";
SAVEPOINT "s140234_x1";
RELEASE SAVEPOINT "s140234_x1";
-- SQLAlchemy with psycopg2 and asyncpg
SELECT users.id AS users_id, anon_1.count_1 FROM users LEFT OUTER JOIN (SELECT addresses.user_id AS user_id, count(*) AS count_1 FROM addresses GROUP BY addresses.user_id) AS anon_1 ON users.id = anon_1.user_id WHERE users.name IN ('a', 'b', E'c\\d') AND users.id = ANY (ARRAY[1, 2, 3]::INTEGER[]) 
 LIMIT 10 OFFSET 20;
INSERT INTO users (name, tags) SELECT p0::VARCHAR, p1::TEXT[] FROM (VALUES ($1::VARCHAR, $2::TEXT[], 0), ($3::VARCHAR, $4::TEXT[], 1)) AS imp_sen(p0, p1, sen_counter) ORDER BY sen_counter RETURNING users.id, users.id AS id__1;
-- Hibernate
select u1_0.id,u1_0.email from users u1_0 where u1_0.email=$1 and u1_0.name like $2 escape '';
/* dynamic native SQL query */ select nextval ('hibernate_sequence');
-- ActiveRecord
SELECT 1 AS one FROM "posts" WHERE "posts"."slug" = $1 LIMIT $2 /*application:Blog,controller:posts*/;
SELECT a.attname, format_type(a.atttypid, a.atttypmod), pg_get_expr(d.adbin, d.adrelid) FROM pg_attribute a LEFT JOIN pg_attrdef d ON a.attrelid = d.adrelid AND a.attnum = d.adnum WHERE a.attrelid = '"posts"'::regclass AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum;
-- Prisma
SELECT "public"."User"."id", "public"."User"."email"::text FROM "public"."User" WHERE ("public"."User"."id" = $1 AND 1=1) ORDER BY "public"."User"."id" ASC LIMIT $2 OFFSET $3;
-- JDBC metadata
SELECT NULL AS TABLE_CAT, n.nspname AS TABLE_SCHEM, CASE n.nspname ~ '^pg_' OR n.nspname = 'information_schema' WHEN true THEN CASE WHEN c.relkind = 'r' THEN 'SYSTEM TABLE' ELSE NULL END ELSE 'TABLE' END AS TABLE_TYPE FROM pg_catalog.pg_namespace n, pg_catalog.pg_class c WHERE c.relnamespace = n.oid AND c.relname LIKE E'sb\\_%' ORDER BY TABLE_TYPE,TABLE_SCHEM;
-- Npgsql, pgx
select t.oid, t.typname, t.typtype, t.typelem from pg_type as t where t.typtype in ('b', 'c', 'd') and t.oid <> 0 and (t.typelem=0 or t.typname not like '\_%');
SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED;
UPDATE t SET doc = doc #- '{a,0}', n = -(-5), tags = tags || '{x}', flags = flags & ~B'0011', raw = X'1F' WHERE doc @> '{"k":1}' AND doc ?| array['a','b'] AND a<-1 AND b=+-2 AND c[1:2] <> '{}';
