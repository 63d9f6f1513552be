-- What a subscription, or a restore under session_replication_role, brings of somebody else's tables of the same name is
-- passed over: it would be in the way of rows here, and the subscription would try for ever. Nobody is admitted by a copied
-- row, anyway. The condition is cheap, and no function is called where it is false.
create or replace function ringfence.pass_over() returns trigger
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
begin
    return null;
end $$;

do $$
declare
    t regclass;
begin
    for t in select c.oid from pg_class c
              where c.relnamespace = 'ringfence_private'::regnamespace and c.relkind = 'r' and c.relpersistence = 'p' and c.relname <> 'entered'
                and not exists (select from pg_trigger g where g.tgrelid = c.oid and g.tgname = 'pass_over') loop
        execute format('create trigger pass_over before insert or update or delete on %s for each row '
            'when (current_setting(''session_replication_role'') = ''replica'') execute function ringfence.pass_over()', t);
        execute format('alter table %s enable always trigger pass_over', t);
    end loop;
end $$;
