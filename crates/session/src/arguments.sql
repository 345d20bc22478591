WITH RECURSIVE pair (n, is_from, oid) AS (VALUES {}),
-- Domains are what they are made of.
based (n, is_from, oid, t) AS (
    SELECT p.n, p.is_from, p.oid, p.oid FROM pair p
    UNION ALL
    SELECT b.n, b.is_from, b.oid, t.typbasetype FROM based b JOIN pg_catalog.pg_type t ON t.oid OPERATOR(pg_catalog.=) b.t
        WHERE t.typtype OPERATOR(pg_catalog.=) 'd'
),
base (n, is_from, oid, t, element) AS (
    SELECT b.n, b.is_from, b.oid, b.t,
        CASE WHEN t.typsubscript OPERATOR(pg_catalog.=) 'pg_catalog.array_subscript_handler'::pg_catalog.regproc THEN t.typelem END
    FROM based b JOIN pg_catalog.pg_type t ON t.oid OPERATOR(pg_catalog.=) b.t WHERE t.typtype OPERATOR(pg_catalog.<>) 'd'
),
-- Of two arrays the elements decide.
asked (n, source, target, s, t) AS (
    SELECT f.n, f.oid, g.oid, CASE WHEN g.element IS NULL OR f.element IS NULL THEN f.t ELSE f.element END,
        CASE WHEN g.element IS NULL OR f.element IS NULL THEN g.t ELSE g.element END
    FROM base f JOIN base g ON g.n OPERATOR(pg_catalog.=) f.n WHERE f.is_from AND NOT g.is_from
)
SELECT a.n, pg_catalog.format_type(a.source, NULL), pg_catalog.format_type(a.target, NULL)
FROM asked a
JOIN pg_catalog.pg_type s ON s.oid OPERATOR(pg_catalog.=) a.s
JOIN pg_catalog.pg_type t ON t.oid OPERATOR(pg_catalog.=) a.t
LEFT JOIN pg_catalog.pg_cast c ON c.castsource OPERATOR(pg_catalog.=) a.s AND c.casttarget OPERATOR(pg_catalog.=) a.t
WHERE a.s OPERATOR(pg_catalog.<>) a.t AND s.typtype OPERATOR(pg_catalog.<>) 'c'
    AND a.s OPERATOR(pg_catalog.<>) 'pg_catalog.record'::pg_catalog.regtype
    AND CASE WHEN c.oid IS NOT NULL THEN c.castcontext OPERATOR(pg_catalog.=) 'e' ELSE t.typcategory OPERATOR(pg_catalog.<>) 'S' END
ORDER BY a.n
