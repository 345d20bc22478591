-- A local table's foreign key to a distributed one looks at home's part of it: rows that are valid were violations.
--! {"setup": true}
create table d (k int primary key, v int);
--! {"herd_only": true, "setup": true}
select create_distributed_table('d', 'k');
--! {"setup": true}
create table r (k int primary key);
--! {"herd_only": true, "setup": true}
select create_reference_table('r');
--! {"writes": true}
insert into d select n, n from generate_series(1, 40) n;
--! {"setup": true}
create table l (k int, r int references r, foreign key (k) references d (k) on delete cascade);
--! {"writes": true}
insert into r values (1);
--! {"writes": true}
insert into l select n, 1 from generate_series(1, 40) n;
--! {"mode": "prepared", "params": ["99"], "types": ["int4"], "writes": true}
insert into l values (:{0}, 1);
--! {"data": "7\t1\n8\t1\n9\t1\n10\t1\n", "writes": true}
copy l from stdin;
--! {"writes": true}
insert into l values (null, 1), (null, 1);
--! {"writes": true}
update l set k = 99;
--! {"writes": true}
update l set r = 2;
--! {"writes": true}
insert into l values (null, 3);
--! {"writes": true}
delete from d;
--! {"writes": true}
insert into d select n, n from generate_series(1, 40) n;
--! {"setup": true}
create table l2 (k int references d);
--! {"writes": true}
insert into l2 values (1);
--! {"writes": true}
insert into l2 values (2);
--! {"writes": true}
insert into l2 values (3);
--! {"writes": true}
insert into l2 values (4);
--! {"writes": true}
insert into l2 values (5);
--! {"writes": true}
insert into l2 values (6);
--! {"writes": true}
insert into l2 values (7);
--! {"writes": true}
insert into l2 values (8);
--! {"writes": true}
delete from d;
--! {}
select count(*) from d;
