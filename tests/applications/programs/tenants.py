"""An application with many tenants, as a team that comes from one PostgreSQL has it: its schema, its rows, its reports, its nightly work."""

SCHEMA = """
CREATE TABLE plans (id int PRIMARY KEY, name text NOT NULL UNIQUE, price numeric(8, 2) NOT NULL, max_projects int);
CREATE TABLE tenants (id bigint PRIMARY KEY, name text NOT NULL, plan_id int NOT NULL REFERENCES plans (id),
    created_at timestamptz NOT NULL, settings jsonb NOT NULL DEFAULT '{}');
CREATE TABLE users (tenant_id bigint NOT NULL REFERENCES tenants (id) ON DELETE CASCADE, id bigint NOT NULL,
    email text NOT NULL, role text NOT NULL CHECK (role IN ('owner', 'member', 'guest')), created_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, id), UNIQUE (tenant_id, email));
CREATE TABLE projects (tenant_id bigint NOT NULL REFERENCES tenants (id) ON DELETE CASCADE, id bigint NOT NULL,
    owner_id bigint NOT NULL, name text NOT NULL, archived boolean NOT NULL DEFAULT false, created_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, id), FOREIGN KEY (tenant_id, owner_id) REFERENCES users (tenant_id, id));
CREATE TABLE tasks (tenant_id bigint NOT NULL, id bigint NOT NULL, project_id bigint NOT NULL, assignee_id bigint, title text NOT NULL,
    state text NOT NULL DEFAULT 'open', points int, due date, tags text[] NOT NULL DEFAULT '{}', created_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, id), FOREIGN KEY (tenant_id, project_id) REFERENCES projects (tenant_id, id) ON DELETE CASCADE);
CREATE INDEX tasks_open ON tasks (tenant_id, due) WHERE state = 'open';
CREATE TABLE comments (tenant_id bigint NOT NULL, id bigint NOT NULL, task_id bigint NOT NULL, author_id bigint NOT NULL,
    body text NOT NULL, created_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, id), FOREIGN KEY (tenant_id, task_id) REFERENCES tasks (tenant_id, id) ON DELETE CASCADE);
CREATE TABLE task_summary (tenant_id bigint NOT NULL, state text NOT NULL, tasks bigint NOT NULL, points bigint, PRIMARY KEY (tenant_id, state));
"""

DISTRIBUTE = """
SELECT create_reference_table('plans');
ALTER TABLE users DROP CONSTRAINT users_tenant_id_fkey;
ALTER TABLE projects DROP CONSTRAINT projects_tenant_id_fkey;
ALTER TABLE projects DROP CONSTRAINT projects_tenant_id_owner_id_fkey;
ALTER TABLE tasks DROP CONSTRAINT tasks_tenant_id_project_id_fkey;
ALTER TABLE comments DROP CONSTRAINT comments_tenant_id_task_id_fkey;
SELECT create_distributed_table('tenants', 'id', shard_count => 6);
SELECT create_distributed_table('users', 'tenant_id', colocate_with => 'tenants');
SELECT create_distributed_table('projects', 'tenant_id', colocate_with => 'tenants');
SELECT create_distributed_table('tasks', 'tenant_id', colocate_with => 'tenants');
SELECT create_distributed_table('comments', 'tenant_id', colocate_with => 'tenants');
SELECT create_distributed_table('task_summary', 'tenant_id', colocate_with => 'tenants');
ALTER TABLE users ADD FOREIGN KEY (tenant_id) REFERENCES tenants (id) ON DELETE CASCADE;
ALTER TABLE projects ADD FOREIGN KEY (tenant_id) REFERENCES tenants (id) ON DELETE CASCADE;
ALTER TABLE projects ADD FOREIGN KEY (tenant_id, owner_id) REFERENCES users (tenant_id, id);
ALTER TABLE tasks ADD FOREIGN KEY (tenant_id, project_id) REFERENCES projects (tenant_id, id) ON DELETE CASCADE;
ALTER TABLE comments ADD FOREIGN KEY (tenant_id, task_id) REFERENCES tasks (tenant_id, id) ON DELETE CASCADE;
"""

# Row security, as the application turns it on: each request says whose it is.
SECURITY = """
ALTER TABLE tasks ENABLE ROW LEVEL SECURITY;
CREATE POLICY of_tenant ON tasks USING (tenant_id = current_setting('app.tenant')::bigint);
ALTER TABLE task_summary ENABLE ROW LEVEL SECURITY;
CREATE POLICY of_tenant ON task_summary USING (tenant_id = current_setting('app.tenant')::bigint);
"""

_FROM = "timestamptz '2026-01-01 00:00:00+00'"

ROWS = f"""
INSERT INTO plans VALUES (1, 'free', 0, 2), (2, 'team', 19.90, 20), (3, 'company', 199, NULL);
INSERT INTO tenants SELECT i, 'Tenant ' || i, 1 + i % 3, {_FROM} + i * interval '7 hours', jsonb_build_object('locale', CASE i % 2 WHEN 0 THEN 'de' ELSE 'en' END)
    FROM generate_series(1, 40) i;
INSERT INTO users SELECT t, u, 'user' || u || '@tenant' || t || '.example', CASE u WHEN 1 THEN 'owner' WHEN 2 THEN 'member' ELSE 'guest' END, {_FROM} + (t * 7 + u) * interval '1 hour'
    FROM generate_series(1, 40) t, generate_series(1, 3) u;
INSERT INTO projects SELECT t, p, 1 + p % 3, 'Project ' || p, p % 4 = 0, {_FROM} + (t * 5 + p) * interval '1 hour'
    FROM generate_series(1, 38) t, generate_series(1, 4) p WHERE (t + p) % 5 > 0;
INSERT INTO tasks SELECT p.tenant_id, p.id * 100 + k, p.id, CASE WHEN k % 4 > 0 THEN k % 4 END, 'Task ' || k || ' of ' || p.id,
    (ARRAY['open', 'doing', 'done'])[1 + (p.tenant_id + k) % 3], CASE WHEN k % 5 > 0 THEN (p.tenant_id * 3 + k * 7) % 13 END, date '2026-02-01' + ((p.tenant_id + k * 11) % 60)::int,
    CASE k % 3 WHEN 0 THEN '{{bug,urgent}}'::text[] WHEN 1 THEN '{{idea}}' ELSE '{{}}' END, {_FROM} + (p.tenant_id * 100 + p.id * 10 + k) * interval '1 minute'
    FROM projects p, generate_series(1, 12) k WHERE (p.tenant_id + k) % 7 > 0;
INSERT INTO comments SELECT t.tenant_id, t.id * 10 + c, t.id, 1 + c % 3, 'Comment ' || c, t.created_at + c * interval '1 day'
    FROM tasks t, generate_series(1, 3) c WHERE (t.id + c + t.tenant_id) % 4 = 0;
"""

# name → query. Those that end in ORDER BY over unique columns are compared in order (`ordered`), all others as sets.
REPORTS = {
    "tasks of each tenant": "SELECT t.id, t.name, count(k.id) AS tasks, sum(k.points) AS points FROM tenants t LEFT JOIN tasks k ON k.tenant_id = t.id GROUP BY t.id, t.name ORDER BY t.id",
    "tasks of each tenant by primary key": "SELECT t.*, count(k.id) FROM tenants t LEFT JOIN tasks k ON k.tenant_id = t.id GROUP BY t.id ORDER BY count(k.id) DESC, t.id LIMIT 10",
    "tenants without tasks": "SELECT t.id FROM tenants t LEFT JOIN tasks k ON k.tenant_id = t.id WHERE k.id IS NULL ORDER BY t.id",
    "tenants with open tasks": "SELECT id, name FROM tenants WHERE EXISTS (SELECT 1 FROM tasks WHERE tenant_id = tenants.id AND state = 'open') ORDER BY id",
    "tenants with nothing due": "SELECT id FROM tenants WHERE NOT EXISTS (SELECT FROM tasks k WHERE k.tenant_id = tenants.id AND k.due < '2026-02-10') ORDER BY id",
    "counts by subqueries": """SELECT t.id, (SELECT count(*) FROM users WHERE tenant_id = t.id) AS users, (SELECT count(*) FROM projects p WHERE p.tenant_id = t.id AND NOT p.archived) AS projects,
        (SELECT count(*) FROM tasks k WHERE k.tenant_id = t.id AND k.state = 'done') AS done FROM tenants t ORDER BY t.id""",
    "tenants over their plan": "SELECT t.id, p.name FROM tenants t JOIN plans p ON p.id = t.plan_id WHERE (SELECT count(*) FROM projects WHERE tenant_id = t.id) > p.max_projects ORDER BY 1",
    "tenants of each plan": "SELECT p.name, count(t.id), sum(p.price) FROM plans p LEFT JOIN tenants t ON t.plan_id = p.id GROUP BY p.name ORDER BY p.name",
    "revenue": "SELECT sum(p.price) FROM tenants t JOIN plans p ON p.id = t.plan_id",
    "newest task of each tenant (lateral)": """SELECT t.id, k.id AS task, k.title FROM tenants t
        CROSS JOIN LATERAL (SELECT id, title FROM tasks WHERE tenant_id = t.id ORDER BY created_at DESC, id DESC LIMIT 1) k ORDER BY t.id""",
    "newest task or none (left lateral)": """SELECT t.id, k.title, k.comments FROM tenants t
        LEFT JOIN LATERAL (SELECT title, (SELECT count(*) FROM comments c WHERE c.tenant_id = t.id AND c.task_id = tasks.id) AS comments FROM tasks WHERE tenant_id = t.id ORDER BY created_at DESC, id DESC LIMIT 1) k ON true ORDER BY t.id""",
    "newest task of each tenant (distinct on)": "SELECT DISTINCT ON (tenant_id) tenant_id, id, title FROM tasks ORDER BY tenant_id, created_at DESC, id DESC",
    "newest comment of each task": "SELECT DISTINCT ON (c.tenant_id, c.task_id) c.tenant_id, c.task_id, c.body FROM comments c JOIN tasks k ON k.tenant_id = c.tenant_id AND k.id = c.task_id WHERE k.state = 'open' ORDER BY c.tenant_id, c.task_id, c.created_at DESC",
    "tasks above the average": "SELECT tenant_id, id, points FROM tasks WHERE points > (SELECT avg(points) FROM tasks) ORDER BY points DESC, tenant_id, id LIMIT 25",
    "tasks above their tenant's average": "SELECT tenant_id, id FROM tasks k WHERE points > (SELECT avg(points) FROM tasks WHERE tenant_id = k.tenant_id) ORDER BY 1, 2",
    "tasks a day": """SELECT d::date AS day, count(k.id) FROM generate_series(date '2026-02-01', date '2026-02-28', interval '1 day') d
        LEFT JOIN tasks k ON k.due = d::date GROUP BY d ORDER BY d""",
    "tasks a day of one tenant": """SELECT d::date AS day, count(k.id) FROM generate_series(date '2026-02-01', date '2026-02-28', interval '1 day') d
        LEFT JOIN tasks k ON k.due = d::date AND k.tenant_id = 7 GROUP BY d ORDER BY d""",
    "growth by day, running": """SELECT day, n, sum(n) OVER (ORDER BY day) FROM (SELECT created_at::date AS day, count(*) AS n FROM tenants GROUP BY 1) x ORDER BY day""",
    "best three of each tenant": "SELECT tenant_id, id, points, place FROM (SELECT tenant_id, id, points, rank() OVER (PARTITION BY tenant_id ORDER BY points DESC NULLS LAST, id) AS place FROM tasks) r WHERE place <= 3 ORDER BY tenant_id, place",
    "best of all": "SELECT tenant_id, id, dense_rank() OVER (ORDER BY points DESC NULLS LAST) FROM tasks ORDER BY points DESC NULLS LAST, tenant_id, id LIMIT 10",
    "people at work": """SELECT u.tenant_id, u.email, count(k.id) FILTER (WHERE k.state = 'open') AS open, count(k.id) FILTER (WHERE k.state = 'done') AS done
        FROM users u LEFT JOIN tasks k ON k.tenant_id = u.tenant_id AND k.assignee_id = u.id GROUP BY u.tenant_id, u.email ORDER BY 1, 2""",
    "who has written most": "SELECT u.email, count(*) AS n FROM comments c JOIN users u ON u.tenant_id = c.tenant_id AND u.id = c.author_id GROUP BY u.email ORDER BY n DESC, u.email LIMIT 5",
    "tags": "SELECT tag, count(*), count(DISTINCT tenant_id) FROM tasks, unnest(tags) AS tag GROUP BY tag ORDER BY tag",
    "tags of tasks as a list": "SELECT state, string_agg(DISTINCT tag, ',' ORDER BY tag) FROM tasks, unnest(tags) tag GROUP BY state ORDER BY state",
    "locales": "SELECT settings->>'locale' AS locale, count(*) FROM tenants GROUP BY 1 ORDER BY 1",
    "median of points": "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY points), mode() WITHIN GROUP (ORDER BY state) FROM tasks",
    "states with totals": "SELECT state, count(*) FROM tasks GROUP BY ROLLUP (state) ORDER BY state NULLS LAST",
    "plans by states": "SELECT p.name, k.state, count(*) FROM plans p JOIN tenants t ON t.plan_id = p.id JOIN tasks k ON k.tenant_id = t.id GROUP BY GROUPING SETS ((p.name, k.state), (p.name), ()) ORDER BY 1 NULLS LAST, 2 NULLS LAST",
    "activity": """SELECT tenant_id, 'task' AS kind, max(created_at) AS at FROM tasks GROUP BY tenant_id UNION ALL SELECT tenant_id, 'comment', max(created_at) FROM comments GROUP BY tenant_id ORDER BY 1, 2""",
    "tenants that are busy in both": "SELECT tenant_id FROM tasks WHERE state = 'open' INTERSECT SELECT tenant_id FROM comments EXCEPT SELECT id FROM tenants WHERE plan_id = 1 ORDER BY 1",
    "with of a team": """WITH open AS (SELECT tenant_id, count(*) AS n FROM tasks WHERE state = 'open' GROUP BY tenant_id), avg AS (SELECT avg(n) AS n FROM open)
        SELECT o.tenant_id, o.n, round(a.n, 3) FROM open o, avg a WHERE o.n > a.n ORDER BY o.n DESC, o.tenant_id""",
    "tenants in a list of others": "SELECT name FROM tenants WHERE id IN (SELECT tenant_id FROM tasks GROUP BY tenant_id HAVING sum(points) > 150) ORDER BY name",
    "same email elsewhere": "SELECT a.tenant_id, b.tenant_id FROM users a JOIN users b ON split_part(a.email, '@', 1) = split_part(b.email, '@', 1) AND a.tenant_id < b.tenant_id WHERE a.tenant_id < 5 AND b.tenant_id < 5 AND a.role = 'owner' ORDER BY 1, 2",
    "neighbours": "SELECT a.id, b.id FROM tenants a JOIN tenants b ON b.id = a.id + 1 AND b.plan_id <> a.plan_id ORDER BY 1",
    "json for the front end": """SELECT t.id, jsonb_agg(jsonb_build_object('project', p.name, 'tasks', (SELECT count(*) FROM tasks k WHERE k.tenant_id = p.tenant_id AND k.project_id = p.id)) ORDER BY p.id)
        FROM tenants t JOIN projects p ON p.tenant_id = t.id GROUP BY t.id ORDER BY t.id""",
    "whole rows as json": "SELECT to_jsonb(t) || jsonb_build_object('users', (SELECT count(*) FROM users u WHERE u.tenant_id = t.id)) FROM tenants t ORDER BY t.id LIMIT 5",
    "rows of json": "SELECT json_agg(x ORDER BY x.id) FROM (SELECT id, name FROM tenants WHERE id < 5) x",
    "row_to_json of a subquery": "SELECT row_to_json(x) FROM (SELECT t.id, count(k.id) AS n FROM tenants t LEFT JOIN tasks k ON k.tenant_id = t.id GROUP BY t.id) x ORDER BY x.id LIMIT 5",
    "a page with its total": "SELECT id, name, count(*) OVER () AS total FROM tenants WHERE plan_id = 2 ORDER BY created_at DESC, id LIMIT 5 OFFSET 5",
    "a page by the last row": "SELECT tenant_id, id, created_at FROM tasks WHERE (created_at, tenant_id, id) > ('2026-01-03 00:00+00', 0, 0) ORDER BY created_at, tenant_id, id LIMIT 10",
    "search": "SELECT tenant_id, id FROM tasks WHERE to_tsvector('english', title) @@ plainto_tsquery('english', 'task 3') AND title ILIKE '%3 OF%' ORDER BY 1, 2",
    "the chain of days": """WITH RECURSIVE days(d) AS (SELECT date '2026-02-01' UNION ALL SELECT d + 1 FROM days WHERE d < '2026-02-10')
        SELECT d, (SELECT count(*) FROM tasks WHERE due = d) FROM days ORDER BY d""",
    "moved between states": "SELECT state, count(*), lag(count(*)) OVER (ORDER BY state) FROM tasks GROUP BY state ORDER BY state",
    "tasks with their path": "SELECT t.name, p.name, k.title, u.email FROM tasks k JOIN projects p USING (tenant_id) JOIN tenants t ON t.id = tenant_id LEFT JOIN users u ON u.tenant_id = k.tenant_id AND u.id = k.assignee_id WHERE p.id = k.project_id AND k.points = 12 ORDER BY t.id, k.id",
    "projects without done tasks": "SELECT p.tenant_id, p.id FROM projects p WHERE p.id NOT IN (SELECT project_id FROM tasks k WHERE k.tenant_id = p.tenant_id AND k.state = 'done') ORDER BY 1, 2",
    "the greatest in any": "SELECT tenant_id, id FROM tasks WHERE points >= ALL (SELECT points FROM tasks WHERE points IS NOT NULL) ORDER BY 1, 2",
    "price of the tenants' plan beside the average": "SELECT t.id, p.price - (SELECT avg(price) FROM plans) FROM tenants t JOIN plans p ON p.id = t.plan_id ORDER BY t.id",
    "a table of values": "SELECT v.label, count(k.id) FROM (VALUES ('low', 0, 4), ('middle', 5, 8), ('high', 9, 99)) v(label, lo, hi) LEFT JOIN tasks k ON k.points BETWEEN v.lo AND v.hi GROUP BY v.label, v.lo ORDER BY v.lo",
    "each plan's newest tenant": "SELECT p.name, t.name FROM plans p CROSS JOIN LATERAL (SELECT name FROM tenants WHERE plan_id = p.id ORDER BY created_at DESC LIMIT 1) t ORDER BY 1",
    "boolean totals": "SELECT bool_or(archived), bool_and(archived), every(id > 0) FROM projects",
    "statistics": "SELECT round(stddev(points), 6), round(var_pop(points), 6), round(corr(points, project_id)::numeric, 6) FROM tasks",
    "now or never": "SELECT count(*) FROM tasks WHERE due < now()::date AND created_at <= now()",
}

# Reports that rightly have no rows.
EMPTY = {"projects without done tasks"}

# What runs at night or at an admin's desk. Each is a transaction of its own; behind each, all tables are compared.
CHANGES = {
    "close the oldest": ["UPDATE tasks SET state = 'closed' WHERE (tenant_id, id) IN (SELECT tenant_id, id FROM tasks WHERE state = 'done' ORDER BY created_at, tenant_id, id LIMIT 10)"],
    "close ten of one tenant": ["UPDATE tasks SET state = 'closed' WHERE tenant_id = 3 AND id IN (SELECT id FROM tasks WHERE tenant_id = 3 AND state = 'open' ORDER BY id LIMIT 10)"],
    "delete in batches": ["DELETE FROM comments WHERE (tenant_id, id) IN (SELECT tenant_id, id FROM comments ORDER BY created_at, tenant_id, id LIMIT 10)"],
    "tenants by id": ["UPDATE tenants SET name = name || ' (old)' WHERE id IN (SELECT id FROM tenants ORDER BY created_at LIMIT 10)"],
    "delete tenants that have nothing": ["DELETE FROM tenants WHERE id IN (SELECT id FROM tenants t WHERE NOT EXISTS (SELECT 1 FROM projects WHERE tenant_id = t.id) ORDER BY id LIMIT 10)"],
    "by place, in one tenant": ["DELETE FROM comments WHERE tenant_id = 5 AND ctid IN (SELECT ctid FROM comments WHERE tenant_id = 5 ORDER BY id LIMIT 3)"],
    "by place, everywhere": ["DELETE FROM comments WHERE ctid IN (SELECT ctid FROM comments WHERE created_at < '2026-01-03' ORDER BY created_at, tenant_id, id LIMIT 5)"],
    "by place, any": ["DELETE FROM comments WHERE ctid = ANY (ARRAY(SELECT ctid FROM comments WHERE created_at < '2026-01-04' ORDER BY created_at, tenant_id, id LIMIT 5))"],
    "summary anew": ["TRUNCATE task_summary", "INSERT INTO task_summary SELECT tenant_id, state, count(*), sum(points) FROM tasks GROUP BY tenant_id, state"],
    "summary by upsert": ["INSERT INTO task_summary SELECT tenant_id, state, count(*), sum(points) FROM tasks GROUP BY tenant_id, state ON CONFLICT (tenant_id, state) DO UPDATE SET tasks = excluded.tasks, points = excluded.points"],
    "points from the project": ["UPDATE tasks k SET points = coalesce(k.points, 0) + p.id FROM projects p WHERE p.tenant_id = k.tenant_id AND p.id = k.project_id AND p.archived"],
    "delete using": ["DELETE FROM tasks k USING projects p WHERE p.tenant_id = k.tenant_id AND p.id = k.project_id AND p.name = 'Project 3' AND k.state = 'done'"],
    "raise the plan of the busy": ["UPDATE tenants SET plan_id = 3 WHERE id IN (SELECT tenant_id FROM tasks GROUP BY tenant_id HAVING count(*) > 35)"],
    "by the average": ["UPDATE tasks SET points = points - 1 WHERE points > (SELECT avg(points) FROM tasks)"],
    "archive with returning": ["WITH gone AS (DELETE FROM comments WHERE created_at < '2026-01-05' RETURNING tenant_id, task_id) UPDATE tasks SET tags = tags || '{archived}'::text[] WHERE (tenant_id, id) IN (SELECT tenant_id, task_id FROM gone)"],
    "merge": ["MERGE INTO task_summary s USING (SELECT tenant_id, state, count(*) AS n, sum(points) AS p FROM tasks GROUP BY tenant_id, state) x ON s.tenant_id = x.tenant_id AND s.state = x.state WHEN MATCHED THEN UPDATE SET tasks = x.n, points = x.p WHEN NOT MATCHED THEN INSERT VALUES (x.tenant_id, x.state, x.n, x.p)"],
    "a price": ["UPDATE plans SET price = price * 1.1 WHERE name <> 'free'"],
    "copies of a project": ["INSERT INTO projects SELECT tenant_id, id + 100, owner_id, name || ' (copy)', false, created_at FROM projects WHERE id = 1", "INSERT INTO tasks SELECT tenant_id, id + 100000, 101, assignee_id, title, 'open', points, due, tags, created_at FROM tasks WHERE project_id = 1 AND EXISTS (SELECT 1 FROM projects p WHERE p.tenant_id = tasks.tenant_id AND p.id = 101)"],
    "a new tenant": ["INSERT INTO tenants VALUES (41, 'Tenant 41', 2, '2026-03-01 00:00+00')", "INSERT INTO users VALUES (41, 1, 'user1@tenant41.example', 'owner', '2026-03-01 00:00+00')", "INSERT INTO projects VALUES (41, 1, 1, 'Project 1', false, '2026-03-01 00:00+00')"],
    "a tenant leaves": ["DELETE FROM tenants WHERE id = 4"],
    "rename the state": ["ALTER TABLE tasks ADD COLUMN closed_at timestamptz", "UPDATE tasks SET closed_at = created_at + interval '1 day' WHERE state IN ('closed', 'done')", "CREATE INDEX ON tasks (tenant_id, closed_at)"],
    "from the newest comment": ["UPDATE tasks k SET title = title || '!' FROM (SELECT DISTINCT ON (tenant_id, task_id) tenant_id, task_id FROM comments ORDER BY tenant_id, task_id, created_at DESC) c WHERE c.tenant_id = k.tenant_id AND c.task_id = k.id"],
}

TABLES = ("plans", "tenants", "users", "projects", "tasks", "comments", "task_summary")
