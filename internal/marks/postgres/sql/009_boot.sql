-- Version 9: a run of the server is told without the control file and without functions of the WAL,
-- which take a file read in each transaction, and which managed services take away.
--
-- One row, of the run that has begun. The table is unlogged: recovery empties it after a crash, after a
-- promotion, also of a standby that is not restarted, and where a snapshot or a base backup is put
-- back. A standby cannot read it. What keeps the row shows in the other columns.
--
-- run       the run, as rows of other tables name it
-- started   when the server had started
-- database  CREATE DATABASE ... TEMPLATE copies the row, and this is the oid of the original
-- written   as in ringfence.mark: a dump brings back a row with another xmin
do $$
declare
    v_older boolean := to_regclass('ringfence.boot') is null and exists (select from ringfence.installation);
    v_run text;
    v_new text;
begin
    create unlogged table if not exists ringfence.boot (
        only_row boolean primary key default true check (only_row),
        run      text collate "C" not null,
        started  timestamptz not null,
        database oid not null,
        written  xid
    );
    if not v_older then
        return;
    end if;
    -- What an earlier version has confirmed in this very run stays confirmed.
    v_new := (select d.oid from pg_database d where d.datname = current_database()) || '/' ||
        (extract(epoch from pg_postmaster_start_time()) * 1000000)::bigint;
    v_run := (pg_control_system()).system_identifier || '/' || substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8) || '/' || v_new;
    update ringfence.installation i
       set registry = v_new || '/' || 'ringfence.session'::regclass::oid
     where i.written = i.xmin and i.registry = v_run || '/' || 'ringfence.session'::regclass::oid;
    update ringfence.installation i set written = i.xmin where i.registry like v_new || '/%';
    v_new := gen_random_uuid() || '/' || v_new;
    insert into ringfence.boot (run, started, database)
    select v_new, pg_postmaster_start_time(), d.oid from pg_database d where d.datname = current_database();
    update ringfence.boot set written = xmin;
    update ringfence.mark m set run = v_new where m.written = m.xmin and m.run = v_run;
    update ringfence.mark m set written = m.xmin where m.run = v_new;
    update ringfence.gate g set run = v_new where g.written = g.xmin and g.run = v_run;
    update ringfence.gate g set written = g.xmin where g.run = v_new;
end $$;

-- Which data these are, where the server hides its system identifier and its timeline: see
-- hidden.sql. It has no row elsewhere.
--
-- id      a random one, in place of the system identifier
-- number  in place of the timeline: it rises when ringfence.boot has lost its row
create table if not exists ringfence.identity (
    only_row boolean primary key default true check (only_row),
    id       text collate "C" not null,
    number   bigint not null,
    written  xid
);
