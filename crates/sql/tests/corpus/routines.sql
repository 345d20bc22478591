-- Statements with semicolons, quotes and comments inside of them.

CREATE FUNCTION add(a int, b int) RETURNS int LANGUAGE sql IMMUTABLE AS $$ SELECT a + b; $$;
CREATE OR REPLACE FUNCTION outer_quote() RETURNS text LANGUAGE plpgsql AS $outer$
BEGIN
  EXECUTE $inner$ SELECT 'it''s; $$ not the end $$' $inner$; -- ; '
  FOR i IN 1..10 LOOP NULL; END LOOP;
  RETURN $$;$$;
END;
$outer$;
CREATE FUNCTION atomic_body(begin int, "end" int DEFAULT (1)) RETURNS int
BEGIN ATOMIC
  SELECT CASE WHEN begin > 0 THEN CASE "end" WHEN 1 THEN 2 END ELSE 3 END AS end;
  INSERT INTO log VALUES (';'); /* end; */
  RETURN begin;
END;
create procedure p() language sql begin atomic end;
CREATE OR REPLACE PROCEDURE q(INOUT n int) BEGIN ATOMIC SELECT n FROM (SELECT 1 AS n) s; UPDATE t SET a = n; END;
SELECT begin atomic FROM (SELECT 1 AS begin) s;
CREATE RULE r AS ON INSERT TO t DO ALSO (INSERT INTO l VALUES (1); DELETE FROM m; NOTIFY t);
DO $$ BEGIN PERFORM 1; END $$;
;;
/* a /* nested ; ' */ comment */ SELECT 'a'
  -- continued ; here
  'b' AS c;
SELECT U&'d\0061t\+000061', U&"d!0061" UESCAPE '!', N'n', B'01' , x'fF', E'\'\\', 0x1F, 0o17, 0b11, 1_000, 9223372036854775808;
CREATE TRIGGER tr BEFORE UPDATE ON t FOR EACH ROW WHEN (OLD.* IS DISTINCT FROM NEW.*) EXECUTE FUNCTION f('x', 1);
SELECT 5 @@ 6, 5 !=-1, a->>'b', a#>>'{c}', '[1,2]'::int4range -|- '[3,4]', |/ 25.0, @ -5, 2 ^ 3, a<>-1;
