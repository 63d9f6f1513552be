-- Version 3: marks, gates and the registry of sessions belong to one run of one server, and to rows
-- that this schema's functions wrote there. A row that came from elsewhere (a dump, a snapshot,
-- CREATE DATABASE ... TEMPLATE) proves nothing about which tokens were accepted since.
--
-- run      the run of the server on which the row was last raised or confirmed: see ringfence.run
-- written  the transaction that wrote this version of the row: a row is original while written = xmin. COPY and INSERT
--          give a copied row another xmin; VACUUM, freezing and pg_upgrade keep it.

-- registry names the registry that is complete (see ringfence.registry). Null means that sessions
-- may be alive which the registry does not list.
do $$
begin
    if not exists (select from pg_attribute where attrelid = 'ringfence.mark'::regclass and attname = 'written') then
        alter table ringfence.installation add column registry text collate "C", add column written xid;
        alter table ringfence.mark add column run text collate "C", add column written xid, add column adoption text collate "C" not null default '';
        drop table if exists ringfence.gate;
        -- Marks of earlier versions are kept. No run has confirmed them, so each must be raised
        -- once more.
        update ringfence.mark set server = server || '/' || (select oid from pg_database where datname = current_database());
        update ringfence.mark set written = xmin;
        update ringfence.installation
           set server = server || '/' || (select oid from pg_database where datname = current_database()), registry = null;
        update ringfence.installation set written = xmin;
    end if;
end $$;

-- The gate: the mark as transactions check it. Only raise, adopt and revoke write it, and nothing
-- locks it, so a row version whose xmax is 0 is the newest one (see enter). A raise closes the
-- gate. It is opened once all sessions and transactions under older tokens have ended. number is
-- that of this raise, older has those of raises whose transactions may still be open.
create table if not exists ringfence.gate (
    resource text collate "C" primary key,
    token    bigint not null,
    issuer   text collate "C" not null,
    run      text collate "C" not null,
    open     boolean not null,
    number   integer not null,
    older    integer[] not null default '{}',
    written  xid
) with (fillfactor = 50);
insert into ringfence.gate (resource, token, issuer, run, open, number)
select m.resource, m.token, m.issuer, '', false, 0 from ringfence.mark m on conflict do nothing;

-- An empty table that only enter reads. Only the schema's owner has a privilege on it, so a backend
-- that holds a lock on it has entered. An advisory lock proves nothing, because anybody may take
-- one.
create table if not exists ringfence.entered ();

-- Each raise updates a row of mark in place. Rows of session come and go with connections.
alter table ringfence.mark set (fillfactor = 50);
alter table ringfence.session set (autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0.1);
