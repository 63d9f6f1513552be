-- The tables. They are in a schema of their own, on which only the owner has USAGE: a statement that nobody may run
-- locks the tables that it names before Postgres looks at privileges, so no statement of anybody else may name one.
-- Programs call the functions of the schema ringfence.
--
-- Several tables have the column written: the transaction that wrote this version of the row. A row is original while
-- written = xmin. COPY and INSERT give a copied row (from a dump, say) another xmin; VACUUM, freezing and pg_upgrade
-- keep it.
--
-- Text is in the order of its bytes, as the order of a database may change with the operating system.

create schema if not exists ringfence;
create schema if not exists ringfence_private;
comment on schema ringfence is 'Ringfence: what programs, guards and operators call. See guard install --print';
comment on schema ringfence_private is 'Ringfence: its tables. Nobody but their owner uses this schema';
revoke all on schema ringfence, ringfence_private from public;

-- A resource: the name of what is led.
do $$
begin
    if to_regtype('ringfence_private.resource') is null then
        create domain ringfence_private.resource as text collate "C" check (value ~ '^[a-z][a-z0-9_]{0,47}$');
    end if;
end $$;

-- One row. server is the server (see ringfence.server) for which an operator last vouched for the marks. On another
-- one (a failover, a restore) a missing mark does not mean that there never was one. registry names the table of sessions
-- that lists everybody who may have been admitted (see ringfence.complete). unlisted is the start of the server whose
-- sessions the installation could not list; null if it could.
create table if not exists ringfence_private.installation (
    only_row     boolean primary key default true check (only_row),
    version      integer not null,
    server       text collate "C" not null,
    registry     text collate "C" not null,
    unlisted     timestamptz,
    installed_at timestamptz not null default clock_timestamp(),
    written      xid
);

-- Which data these are, where the server hides its system identifier and its timeline: see hidden.sql. identity has
-- one row there, which is never changed. recovery is unlogged, so it is empty after a recovery; then it gets a row with
-- the next number.
create table if not exists ringfence_private.identity (
    only_row boolean primary key default true check (only_row),
    id       text collate "C" not null default gen_random_uuid()::text
);
create unlogged table if not exists ringfence_private.recovery (number bigint not null);
create sequence if not exists ringfence_private.recoveries;

-- The mark: the highest token accepted for a resource. The table is logged, so a mark is as durable as the other
-- data. candidate is whose term has raised it, empty where that is not known. rolled_back: a leader of the mark's
-- issuer was seen below the mark, or at it as another candidate, so nobody of that issuer counts any more, until an
-- operator adopts the resource.
--
-- pass is that of the last raise: resource, token, issuer, candidate, and a random text. older has the numbers (see
-- ringfence.number) of the passes before, under which transactions may still be open; null stands for any number. inside
-- lists those transactions as they were when somebody first looked after the raise, null before that: who comes later is
-- refused, so nobody has to wait for it.
create table if not exists ringfence_private.mark (
    resource    ringfence_private.resource primary key,
    token       bigint not null check (token >= 0),
    issuer      text collate "C" not null,
    candidate   text collate "C" not null default '',
    holder      text collate "C" not null,
    raised_at   timestamptz not null default clock_timestamp(),
    server      text collate "C" not null,
    adoption    text collate "C" not null default '',
    rolled_back boolean not null default false,
    pass        text collate "C" not null,
    older       integer[] default '{}',
    inside      text[] collate "C",
    written     xid
) with (fillfactor = 50);

-- Which operator started which issuer's count, and the mark before.
create table if not exists ringfence_private.adoption (
    adopted_at timestamptz not null default clock_timestamp(),
    by_role    name not null default session_user,
    by_holder  text collate "C" not null,
    resource   text collate "C" not null,
    old_issuer text collate "C",
    old_token  bigint,
    new_issuer text collate "C" not null,
    new_token  bigint not null
);

-- An empty table that only enter reads: a backend that holds a lock on it has entered. An advisory lock alone proves
-- nothing, because anybody may take one.
create table if not exists ringfence_private.entered ();

-- The gate: the mark as transactions check it. A raise writes it, closed. It is opened once all sessions and
-- transactions under older tokens have ended. Nothing else locks or changes a row, so a version whose xmax is 0 is the
-- newest one (see enter).
--
-- The table is unlogged: recovery empties it after a crash, after a promotion, also of a standby that is not restarted,
-- and where a snapshot or a base backup is put back. Then the mark, which is durable, has to be raised again. What keeps
-- the row shows in the other columns: started is when the server had started, and place the folder of the
-- database's files, which is another one in a copy of the database (CREATE DATABASE ... TEMPLATE).
create unlogged table if not exists ringfence_private.gate (
    resource  ringfence_private.resource primary key,
    token     bigint not null,
    issuer    text collate "C" not null,
    candidate text collate "C" not null,
    pass      text collate "C" not null,
    open      boolean not null default false,
    started   timestamptz not null default pg_postmaster_start_time(),
    place     text collate "C" not null default rtrim(pg_relation_filepath('ringfence_private.entered'), '0123456789'),
    written   xid
) with (fillfactor = 50);

-- The gates that count. touched: a transaction has replaced or locked the row, and may have committed.
create or replace view ringfence_private.standing as
select g.resource, g.token, g.issuer, g.candidate, g.pass, g.open, g.xmax <> '0'::xid as touched
  from ringfence_private.gate g
 where g.written = g.xmin and g.started = pg_postmaster_start_time() and g.place = rtrim(pg_relation_filepath('ringfence_private.entered'), '0123456789');

-- The sessions admitted under a mark. The table is unlogged: a crash that empties it has ended every session that it
-- listed. attachment is the number that attach gave to the session; null if only a guard has registered it.
create unlogged table if not exists ringfence_private.session (
    resource      text collate "C" not null, -- '*': it may be any
    token         bigint not null,
    issuer        text collate "C" not null,
    pid           integer not null,
    backend_start timestamptz not null,
    attachment    bigint unique,
    primary key (resource, pid, backend_start)
) with (autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0.1);
create index if not exists session_by_process on ringfence_private.session (pid, backend_start);
create index if not exists session_by_token on ringfence_private.session (resource, token);

-- The numbers. Only attach draws one. currval returns the last number that the caller's own backend has drawn, and
-- the sequence gives no number twice, so a session cannot have another one's number.
create sequence if not exists ringfence_private.attachment;

-- When a backend started, in microseconds, as seal remembers it. Only currval is used: it is the value that the
-- caller's own backend has set.
create sequence if not exists ringfence_private.birth;

-- The backends of sessions that were let go. Their records are closed, and they are to end. The table is unlogged: a
-- crash that empties it has ended every backend that it listed.
create unlogged table if not exists ringfence_private.leaving (
    pid           integer not null,
    backend_start timestamptz not null,
    primary key (pid, backend_start)
) with (autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0.1);

-- Who may claim what. A row counts only for the very role and database that it was written for, and only as it was
-- written: a row that came from a dump, or that names a role which was dropped and created again, allows nothing. A
-- failover and pg_upgrade keep all of that; see forbidden. pattern is a resource, or a pattern in which * stands for
-- any text.
create table if not exists ringfence_private.allowed (
    role        name not null,
    pattern     text collate "C" not null check (pattern ~ '^[a-z*][a-z0-9_*]{0,47}$'),
    role_id     oid not null,
    database_id oid not null,
    allowed_at  timestamptz not null default clock_timestamp(),
    allowed_by  name not null default session_user,
    written     xid,
    primary key (role, pattern)
);

-- Sealed tables. The triggers on them decide (see seal); this table is only what the operator has asked for, by name,
-- so that guard check finds a table that has lost its trigger.
create table if not exists ringfence_private.sealed (
    schema_name name not null,
    table_name  name not null,
    resource    ringfence_private.resource not null,
    sealed_at   timestamptz not null default clock_timestamp(),
    sealed_by   name not null default session_user,
    primary key (schema_name, table_name)
);

-- Checkpoints. One row per task; version counts the published checkpoints.
create table if not exists ringfence_private.checkpoint (
    task       text collate "C" primary key,
    resource   ringfence_private.resource not null,
    version    bigint not null check (version > 0),
    token      bigint not null,
    checkpoint json not null,
    saved_at   timestamptz not null default clock_timestamp()
) with (fillfactor = 50);

-- Elections.
--
-- One row: the random part of the issuer. The transaction that wrote it is part of the issuer, too (see issuer), so a
-- row that a dump brought back is another one.
create table if not exists ringfence_private.issuer (
    only_row boolean primary key default true check (only_row),
    id       text collate "C" not null default gen_random_uuid()::text
);
insert into ringfence_private.issuer default values on conflict do nothing;

-- A lease is a process that takes part. It counts until expires_at, by the clock of the server, and only in the era
-- that it was opened in (see era). over: somebody has seen its end, and deleted a candidate of it. Then it has ended
-- whatever the clock says later.
create table if not exists ringfence_private.lease (
    id         text collate "C" primary key,
    ttl        bigint not null check (ttl > 0), -- in milliseconds
    expires_at timestamptz not null,
    era        text collate "C" not null,
    over       boolean not null default false
) with (fillfactor = 50, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0.1);

-- An enrolment locks the row of the election, so that its tokens are committed in their order. last is the highest
-- of them, under that issuer, and the next one is above it. holder and attempt are those of the last take. The row is never deleted.
create table if not exists ringfence_private.election (
    resource ringfence_private.resource primary key,
    last     bigint not null default 0,
    issuer   text collate "C" not null default '',
    holder   text collate "C",
    attempt  bigint
) with (fillfactor = 50);

-- The candidate with the lowest token leads.
create table if not exists ringfence_private.candidate (
    resource text collate "C" not null references ringfence_private.election,
    token    bigint not null check (token > 0),
    id       text collate "C" not null unique,
    lease    text collate "C" not null references ringfence_private.lease on delete cascade,
    holder   text collate "C" not null,
    ready    boolean not null default false,
    primary key (resource, token)
) with (fillfactor = 50);
create index if not exists candidate_by_lease on ringfence_private.candidate (lease);

-- The present lease of a holder of campaign. Only calls of that holder lock its row.
create table if not exists ringfence_private.holder (
    key   text collate "C" primary key,
    lease text collate "C" not null default ''
) with (fillfactor = 50);

-- Documents. version is never the same twice.
create sequence if not exists ringfence_private.document_version as bigint;
create table if not exists ringfence_private.document (
    folder  text collate "C" not null,
    name    text collate "C" not null,
    version bigint not null default nextval('ringfence_private.document_version'),
    data    bytea not null,
    primary key (folder, name)
) with (fillfactor = 80);
