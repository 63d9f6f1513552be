-- Which server this is, and which run of it. These are PL/pgSQL functions because transactions call
-- them: SQL functions are parsed and planned again in every transaction.

-- server names the data: system identifier, timeline, database. It changes with a failover and in a
-- copy of the database. A restored disk snapshot or base backup has the same server as its
-- original. It tells whether there was ever a mark here. It reads a file, so enter must not call it.
create or replace function ringfence.server() returns text
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    return (pg_control_system()).system_identifier || '/' || substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8)
        || '/' || (select d.oid from pg_database d where d.datname = current_database());
end $$;

-- instance names this database on this start of the server. In another instance every session of this
-- one has ended.
create or replace function ringfence.instance() returns text
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
    return (select d.oid from pg_database d where d.datname = current_database())
        || '/' || (extract(epoch from pg_postmaster_start_time()) * 1000000)::bigint;
end $$;

-- run names the present run of the server, or is null if none has begun. In another run every earlier
-- session has ended, and the data may be older. So a mark counts only in the run in which it was
-- raised, and without a run nothing is confirmed. See ringfence_private.boot for what ends a run.
-- model/run.pml checks that nothing is confirmed in older data.
create or replace function ringfence.run() returns text
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    return (select b.run from ringfence_private.boot b
             where b.written = b.xmin and b.started = pg_postmaster_start_time()
               and b.database = (select d.oid from pg_database d where d.datname = current_database()));
end $$;

-- begin_run begins a run if there is none, and returns it. What writes a mark calls it, before it locks
-- one: two calls must not wait for each other.
create or replace function ringfence.begin_run() returns text
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_run text := ringfence.run();
begin
    if v_run is not null then
        return v_run;
    end if;
    perform ringfence.check_isolation();
    lock table ringfence_private.boot in share row exclusive mode;
    if ringfence.run() is null then
        if not exists (select from ringfence_private.boot b where b.written = b.xmin) then -- no clean restart
            perform ringfence.renew_identity();
        end if;
        delete from ringfence_private.boot;
        insert into ringfence_private.boot (run, started, database)
        select gen_random_uuid() || '/' || ringfence.instance(), pg_postmaster_start_time(), d.oid
          from pg_database d where d.datname = current_database();
        update ringfence_private.boot set written = xmin;
    end if;
    return ringfence.run();
end $$;

-- renew_identity gives the data another number, or another id if the row is a copy: see hidden.sql.
create or replace function ringfence.renew_identity() returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    update ringfence_private.identity i
       set id = case when i.written = i.xmin then i.id else gen_random_uuid()::text end, number = i.number + 1;
    update ringfence_private.identity i set written = i.xmin;
end $$;

-- registry names the table of sessions in this instance. A table that was created again is another
-- registry. A run that ends while the server runs (a backend crashes, or somebody empties the table
-- ringfence_private.boot) does not end the registry: the table of sessions still has every session, or was
-- emptied by a crash that has ended them.
create or replace function ringfence.registry() returns text
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    return ringfence.instance() || '/' || 'ringfence_private.session'::regclass::oid;
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
-- the run, 'none' if that has not begun; 'standby' on a server in recovery.
create or replace function ringfence.leg() returns text
language plpgsql volatile security invoker set search_path = pg_catalog, pg_temp as $$
declare
    v_start timestamptz := (select a.backend_start from pg_stat_get_activity(pg_backend_pid()) a);
begin
    if pg_is_in_recovery() then
        return 'standby';
    end if;
    return format('%s %s %s %s', pg_backend_pid(), (extract(epoch from coalesce(v_start, ringfence.own_start())) * 1000000)::bigint,
        (select r.rolsuper from pg_roles r where r.rolname = session_user), coalesce(ringfence.run(), 'none'));
end $$;
