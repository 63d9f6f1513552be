-- Which server this is. These are PL/pgSQL functions because transactions call them: SQL functions are parsed and
-- planned again in every transaction.

-- server names the data: system identifier, timeline, database. It changes with a failover and in a copy of the database.
-- A restored disk snapshot or base backup has the same server as its original. It tells whether there was ever a mark
-- here. It reads a file, so enter must not call it.
create or replace function ringfence.server() returns text
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    return (pg_control_system()).system_identifier || '/' || substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8)
        || '/' || (select d.oid from pg_database d where d.datname = current_database());
end $$;

-- run names the server and its present run, by the start in microseconds. In another run every session of this one has ended.
create or replace function ringfence.run() returns text
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    return ringfence.server() || '/' || (extract(epoch from pg_postmaster_start_time()) * 1000000)::bigint;
end $$;

-- registry names the table of sessions of this database. A table that was created again is another one, and so is that
-- of a copy of the database.
create or replace function ringfence.registry() returns text
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    return (select d.oid from pg_database d where d.datname = current_database()) || '/' || 'ringfence_private.session'::regclass::oid;
end $$;

-- complete returns whether ringfence_private.session lists every session that may be alive and admitted. The table is
-- unlogged: what empties it ends the sessions. So it is complete from the installation on, which lists everybody, or
-- from the next start of the server on.
create or replace function ringfence.complete() returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    return exists (select from ringfence_private.installation i
                    where i.written = i.xmin and i.registry = ringfence.registry() and i.unlisted is distinct from pg_postmaster_start_time());
end $$;

-- check_complete fails a call that needs that.
create or replace function ringfence.check_complete() returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    if ringfence.complete() then
        return;
    end if;
    if exists (select from ringfence_private.installation i where i.written = i.xmin and i.registry = ringfence.registry()) then
        raise exception using errcode = 'RF005', message = 'who is at work in this database is not known: the installation could not see the sessions of other roles',
            detail = 'nothing was changed',
            hint = 'an operator grants pg_read_all_stats to the role that installs, and runs guard install once more; or restarts the server';
    end if;
    raise exception using errcode = 'RF005', message = 'this database is a copy, or was restored from a dump: who is at work in it is not known',
        detail = 'nothing was changed', hint = 'an operator runs: guard install';
end $$;

-- own_start returns when the caller's backend started. The schema's owner may have no privilege to
-- see that of other roles.
create or replace function ringfence.own_start() returns timestamptz
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    return (select a.backend_start from pg_stat_get_activity(pg_backend_pid()) a);
end $$;

-- backend_identity identifies the caller's backend and the server. A guard calls it on a client's upstream connection, before the
-- client may use that, if the server does not show it the name that it has sent there. It returns the pid, the start in
-- microseconds, whether the role is a superuser, and the run; 'standby' on a server in recovery.
create or replace function ringfence.backend_identity() returns text
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
