-- Version 3: marks, gates and the registry of sessions belong to one run of one server, and to rows that this schema's
-- functions wrote there. A row that came from somewhere else (a dump, a snapshot, CREATE DATABASE … TEMPLATE) proves
-- nothing about who was accepted since.
--
-- run      the run of the server on which the row was last raised or confirmed: see ringfence.run
-- written  the transaction that wrote this version of the row: a row is original while written = xmin. COPY and INSERT
--          give a copied row another xmin; VACUUM, freezing and pg_upgrade keep it.

-- registry is the registry of sessions that is known to be complete: see ringfence.registry. Null: sessions that it does
-- not list may be alive.
do $$
begin
    if not exists (select from pg_attribute where attrelid = 'ringfence.mark'::regclass and attname = 'written') then
        alter table ringfence.installation add column registry text, add column written xid;
        alter table ringfence.mark add column run text, add column written xid, add column adoption text not null default '';
        drop table if exists ringfence.gate;
        -- Marks of earlier versions are kept. No run has confirmed them, so each has to be raised once more.
        update ringfence.mark set server = server || '/' || (select oid from pg_database where datname = current_database());
        update ringfence.mark set written = xmin;
        update ringfence.installation
           set server = server || '/' || (select oid from pg_database where datname = current_database()), registry = null;
        update ringfence.installation set written = xmin;
    end if;
end $$;

-- The gate: the mark as transactions check it, written by raise, adopt and revoke only and never locked, so that a row
-- version whose xmax is 0 is the newest there is: see enter. A raise shuts it; it is opened once everything under older
-- tokens has ended. number is that of this raise, older are those of raises whose transactions may still be open.
create table if not exists ringfence.gate (
    resource text primary key,
    token    bigint not null,
    issuer   text not null,
    run      text not null,
    open     boolean not null,
    number   integer not null,
    older    integer[] not null default '{}',
    written  xid
) with (fillfactor = 50);
insert into ringfence.gate (resource, token, issuer, run, open, number)
select m.resource, m.token, m.issuer, '', false, 0 from ringfence.mark m on conflict do nothing;

-- An empty table that enter alone reads. Nobody but the schema's owner has a privilege on it, so whoever holds a lock on
-- it has entered: an advisory lock proves nothing, for anybody may take one.
create table if not exists ringfence.entered ();

-- Rows of mark are updated in place at each raise, rows of session come and go with connections.
alter table ringfence.mark set (fillfactor = 50);
alter table ringfence.session set (autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0.1);
