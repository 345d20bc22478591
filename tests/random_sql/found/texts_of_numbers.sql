-- Sums that pass through text under settings that shorten it; words that are no numbers for integer keys.
--! {"setup": true}
create table d (k int primary key, f float8);
--! {"herd_only": true, "setup": true}
select create_distributed_table('d', 'k');
--! {"setup": true}
insert into d select n, n + 0.123456789 from generate_series(1, 20) n;
--! {}
select k from d where k = 'NaN';
--! {}
select k from d where k = 'infinity';
--! {}
update d set f = 1 where k in ('inf', '3');
--! {}
set extra_float_digits = -10;
--! {}
select sum(f::float4) from d;
--! {}
select max(f) from d;
--! {}
reset extra_float_digits;
