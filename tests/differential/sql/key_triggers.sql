-- Triggers of distributed tables that use rows of their row's key in colocated tables: audit, counters, copies, checks of a parent row.
--! setup
create table kt (id int primary key, v text, n int);
create table kt_audit (id int, op text, was jsonb, is_now jsonb, note text, at timestamptz default now());
create table kt_count (id int primary key, n int not null);
create table kt_parent (id int primary key, cap int);
create table kt_history (id int, v text, n int);
create table kt_notes (id int primary key, note text);
insert into kt_parent select g, g % 4 from generate_series(1, 60) g;
insert into kt_notes select g, 'note ' || g from generate_series(0, 9) g;
create function kt_audits() returns trigger language plpgsql as $$ begin
  if tg_op = 'DELETE' then insert into kt_audit (id, op, was) values (old.id, tg_op, to_jsonb(old)); return old;
  elsif tg_op = 'UPDATE' then insert into kt_audit (id, op, was, is_now) values (new.id, tg_op, to_jsonb(old), to_jsonb(new)); return new; end if;
  insert into kt_audit (id, op, is_now, note) select new.id, 'I', to_jsonb(new), (select note from kt_notes where id = new.n % 10); return new; end $$;
create function kt_counts() returns trigger language plpgsql as $$ begin
  insert into kt_count as c values (coalesce(new.id, old.id), 1) on conflict (id) do update set n = c.n + 1;
  update kt_count set n = kt_count.n + 0 where id = case tg_op when 'DELETE' then old.id else new.id end; return null; end $$;
create function kt_copies() returns trigger language plpgsql as $$ begin
  insert into kt_history values (new.*); insert into public.kt_history select old.*; return null; end $$;
create function kt_checks() returns trigger language plpgsql as $$ declare c int; begin
  select cap into c from kt_parent where id = new.id for update;
  if not found then raise foreign_key_violation using message = 'no parent ' || new.id; end if;
  if (select count(*) from kt_audit where kt_audit.id = new.id) > 20 then raise exception 'too many'; end if;
  new.n := new.n + coalesce(c, 0); return new; end $$;
create function kt_holds() returns trigger language plpgsql as $$ declare k int; j constant kt.id%type := coalesce(new.id, old.id); begin
  if tg_op = 'DELETE' then k := old.id; else k := new.id; end if;
  insert into kt_audit (id, op) values (k, 'k'), (j, 'j');
  perform 1 from kt_parent where id in (new.id, old.id);
  if found then update kt_count set n = n + 1 where id = k; end if;
  delete from kt_audit where id = j and op = 'j'; insert into kt_audit select id, 'moved' from kt_audit where id = j and op = 'k';
  insert into kt_audit (op, id) select note, new.id from kt_notes where kt_notes.id = new.id
    union all select 'g' || g, coalesce(new.id, old.id) from generate_series(1, 2) g; return null; end $$;
create function kt_itself() returns trigger language plpgsql as $$ declare c int; begin
  for c in select n from kt where id = new.id loop update kt set v = v || '!' where kt.id = new.id and length(kt.v) < 10; end loop; return null; end $$;
create function kt_deferred() returns trigger language plpgsql as $$ begin
  if not exists (select 1 from kt_count where id = new.id) then raise exception 'no count of %', new.id; end if; return null; end $$;
create function kt_elsewhere() returns trigger language plpgsql as $$ begin insert into kt_audit (id) values (new.n); return null; end $$;
create function kt_all() returns trigger language plpgsql as $$ begin perform count(*) from kt_audit; return null; end $$;
create function kt_moves() returns trigger language plpgsql as $$ begin new.id := 7; insert into kt_audit (id) values (new.id); return null; end $$;
create function kt_text() returns trigger language plpgsql as $$ begin execute 'insert into kt_audit (id) values ($1)' using new.id; return null; end $$;
--! distribute kt id
--! distribute kt_audit id
--! distribute kt_count id
--! distribute kt_parent id
--! distribute kt_history id
--! reference kt_notes
--! teardown
drop table if exists kt, kt_audit, kt_count, kt_parent, kt_history, kt_notes;
drop function if exists kt_audits, kt_counts, kt_copies, kt_checks, kt_holds, kt_itself, kt_deferred, kt_elsewhere, kt_all, kt_moves, kt_text;
--! tests
create trigger kt_1 after insert or update or delete on kt for each row execute function kt_audits();
create trigger kt_2 after insert or update or delete on kt for each row execute function kt_counts();
create trigger kt_3 after update on kt for each row execute function kt_copies();
create trigger kt_4 before insert or update on kt for each row execute function kt_checks();
create trigger kt_5 after insert or update or delete on kt for each row execute function kt_holds();
create trigger kt_6 after insert on kt for each row execute function kt_itself();
create constraint trigger kt_7 after insert on kt deferrable initially deferred for each row execute function kt_deferred();
insert into kt select g, 'v' || g, g from generate_series(1, 20) g;
insert into kt values (21, 'x', 1), (22, 'y', 2), (23, 'z', 3) returning *;
-- plain refuses
insert into kt values (100, 'x', 1);
update kt set v = 'u' where id < 7;
update kt set n = n + 1;
delete from kt where id % 3 = 0;
insert into kt values (1, 'a', 5), (2, 'b', 6) on conflict (id) do update set v = kt.v || excluded.v;
update kt set n = n + 1 where id = 1;
merge into kt using (select g from generate_series(1, 40) g) s on kt.id = s.g when matched then update set v = 'm';
select id, v, n from kt order by id;
select id, op, was, is_now, note from kt_audit order by 1, 2, 3::text, 4::text;
select * from kt_count order by id;
select * from kt_history order by 1, 2, 3;
with d as (delete from kt where id between 10 and 13 returning *) select count(*) from d;
begin;
insert into kt values (3, 't', 3);
savepoint s;
delete from kt where id = 3;
select op from kt_audit where id = 3 order by 1;
rollback to s;
delete from kt_count where id = 3;
-- plain refuses
set constraints all immediate;
rollback;
select op from kt_audit where id = 3 order by 1;
select count(*), sum(id) from kt_audit;
select * from kt_count order by id;
create trigger kt_8 after insert on kt for each row execute function kt_elsewhere();
create trigger kt_8 after insert on kt for each row execute function kt_all();
create trigger kt_8 after insert on kt for each row execute function kt_moves();
create trigger kt_8 after insert on kt for each row execute function kt_text();
