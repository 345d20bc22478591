-- A row whose key changes is deleted and inserted; its new values were cast to `char`, which means a length of one.
--! {"setup": true}
create table c (k char(6), b bit(8), v int);
--! {"herd_only": true, "setup": true}
select create_distributed_table('c', 'k');
--! {"writes": true}
insert into c values ('abcdef', '10101010', 1), ('ghijkl', '11110000', 2), ('x', '00000000', 3), ('', '11111111', 4);
--! {"writes": true}
update c set k = 'k1'::char(6), b = '10000001'::bit(8) where k in ('x', 'abcdef');
--! {"writes": true}
update c set k = 'zzzzz', b = b | '00001111' where k = 'ghijkl';
--! {"writes": true}
update c set k = 'long'::pg_catalog.bpchar, b = '11001100'::pg_catalog."bit" where k = '';
--! {"mode": "extended", "params": ["moved", "zzzzz"], "types": ["char(6)", "char(6)"], "writes": true}
update c set k = :{0} where k = :{1};
