create or replace function add(a integer, b integer) returns integer language sql
begin atomic
  select case when a is null then b else a + b end;
end;
select jsonb_build_object('total', add(1, 2)) as state;
