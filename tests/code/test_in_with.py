"""Data-modifying WITH over several nodes beside code of users' own: what that could see is refused."""

import pytest

pytestmark = pytest.mark.real_herd


def test_triggers_that_could_see_another_part_are_refused(db):
    db.run(
        "create function seen() returns trigger language plpgsql as $$ begin new.v := (select count(*) from r); return new; end $$",
        "create trigger seen before insert on d for each row execute function seen()",
    )
    db.refused("with x as (insert into r (id) values (901)) insert into d (id) values (902), (903), (904)", "triggers")
    db.refused("with x as (insert into d (id) values (902), (903), (904) returning id) insert into r (id) select id from x", "triggers")
    db.run("with x as (insert into d (id) values (902), (903), (904) returning id) insert into l (id) select id from x")
    assert db.one("select count(*) from l where id > 900") == 3


def test_functions_that_could_see_another_part_are_refused(db):
    db.run("create function many() returns bigint stable language sql as 'select count(*) from r'")
    db.refused("with x as (insert into r (id) values (901)) insert into d (id) select 900 + many()::int from d", "functions")
