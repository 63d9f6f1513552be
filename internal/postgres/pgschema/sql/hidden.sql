-- Some managed services refuse the functions of the WAL (Aurora), or hide the control file. There
-- server tells the data by a row of ringfence_private.identity. The installation finds out which of the two it
-- is, with the rights of the role that owns the functions.
--
-- The number rises where the timeline would, and after a crash, which the row cannot tell from a
-- promotion. Then it is not known that no mark was lost. On a service that does not empty unlogged tables
-- it does not rise. A row that is a copy names no data: each call returns another server.
do $do$
begin
    perform ringfence.server();
exception when others then
    create or replace function ringfence.server() returns text
    language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
    begin
        return coalesce((select i.id || '/' || i.number from ringfence_private.identity i where i.written = i.xmin), gen_random_uuid() || '/0')
            || '/' || (select d.oid from pg_database d where d.datname = current_database());
    end $$;
    delete from ringfence_private.identity i where i.written is distinct from i.xmin;
    insert into ringfence_private.identity (id, number) values (gen_random_uuid()::text, 1) on conflict do nothing;
    update ringfence_private.identity i set written = i.xmin where i.written is null;
end $do$;
