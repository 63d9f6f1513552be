-- Some managed services refuse the functions of the WAL (Aurora), or hide the control file. There
-- server tells the data by a row of ringfence_private.identity. The installation finds out which of the two it
-- is, with the rights of the role that owns the functions. A row that was copied has another xmin, so it names other data.

-- recovery returns a number that rises where the timeline would, and after a crash, which cannot be told from a
-- promotion. Then it is not known that no mark was lost. On a service that does not empty unlogged tables it does not
-- rise. Two calls that are the first ones may both write a row; the higher number counts then.
create or replace function ringfence.recovery() returns bigint
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_number bigint := (select max(r.number) from ringfence_private.recovery r);
begin
    if v_number is null then
        insert into ringfence_private.recovery values (nextval('ringfence_private.recoveries')) returning number into v_number;
    end if;
    return v_number;
end $$;

do $do$
begin
    perform ringfence.server();
exception when others then
    create or replace function ringfence.server() returns text
    language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
    begin
        return (select i.id || ':' || i.xmin from ringfence_private.identity i) || '/' || ringfence.recovery()
            || '/' || (select d.oid from pg_database d where d.datname = current_database());
    end $$;
    insert into ringfence_private.identity default values on conflict do nothing;
end $do$;
