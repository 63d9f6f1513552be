-- Which server this is. These are PL/pgSQL functions because enter calls them: SQL functions are
-- parsed and planned again in every transaction.

-- server names the data: system identifier, timeline, database. It changes with a failover and in a
-- copy of the database. A restored disk snapshot or base backup has the same server as its
-- original.
create or replace function ringfence.server() returns text
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    return (pg_control_system()).system_identifier || '/' || substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8)
        || '/' || (select d.oid from pg_database d where d.datname = current_database());
end $$;

-- run names one run of that server. In another run every earlier session has ended, and the data
-- may be older. Give it the server where that is known: finding it out reads a file.
create or replace function ringfence.run_of(p_server text) returns text
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
    return p_server || '/' || (extract(epoch from pg_postmaster_start_time()) * 1000000)::bigint;
end $$;

create or replace function ringfence.run() returns text
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    return ringfence.run_of(ringfence.server());
end $$;

-- registry names the table of sessions on this run. A table that was created again is another
-- registry.
create or replace function ringfence.registry_of(p_run text) returns text
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
    return p_run || '/' || 'ringfence.session'::regclass::oid;
end $$;

create or replace function ringfence.registry() returns text
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    return ringfence.registry_of(ringfence.run());
end $$;

-- own_start returns when the caller's backend started. The schema's owner may have no privilege to
-- see that of other roles.
create or replace function ringfence.own_start() returns timestamptz
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    return (select a.backend_start from pg_stat_get_activity(pg_backend_pid()) a);
end $$;

-- leg identifies the caller's backend and the server's run. A guard calls it on a client's upstream
-- connection, before the client may use that, if the server does not show it the name that it has
-- sent there. It returns the pid, the start in microseconds, whether the role is a superuser, and
-- the run; 'standby' on a server in recovery.
create or replace function ringfence.leg() returns text
language plpgsql volatile security invoker set search_path = pg_catalog, pg_temp as $$
declare
    v_start timestamptz := (select a.backend_start from pg_stat_get_activity(pg_backend_pid()) a);
begin
    if pg_is_in_recovery() then
        return 'standby';
    end if;
    return format('%s %s %s %s', pg_backend_pid(), (extract(epoch from coalesce(v_start, ringfence.own_start())) * 1000000)::bigint,
        (select r.rolsuper from pg_roles r where r.rolname = session_user), ringfence.run());
end $$;
