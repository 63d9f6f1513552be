-- The tables. Every statement here may be repeated. Only the functions of functions.sql use the
-- tables; a role that takes part in elections has no privilege on them.

create schema if not exists ringfence_elections;
comment on schema ringfence_elections is
    'Ringfence: who leads. To drop it is to make another issuer; stop all leaders first';

-- One row. Calls that end expired sessions lock it, so that two of them cannot wait for each other.
create table if not exists ringfence_elections.installation (
    only_row     boolean primary key default true check (only_row),
    version      integer not null,
    installed_at timestamptz not null default clock_timestamp()
);

-- One row: the random part of the issuer, and the prefix that it was made for (null: by an older version).
-- written is the transaction that wrote the row. A row that a dump brought back has another xmin, and one
-- that pg_upgrade has carried over another prefix; then the counters may have gone back, too.
create table if not exists ringfence_elections.issuer (
    only_row boolean primary key default true check (only_row),
    id       text collate "C" not null,
    written  xid
);
alter table ringfence_elections.issuer add column if not exists prefix text collate "C";

-- A session is a process that takes part. It counts until expires_at, by the clock of the server,
-- and only on the timeline that it was opened on.
create table if not exists ringfence_elections.session (
    id         text collate "C" primary key,
    ttl        bigint not null check (ttl > 0), -- in milliseconds
    expires_at timestamptz not null,
    timeline   bigint not null
) with (fillfactor = 50, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0.1);

-- In place of the timeline, where the server hides it: see timeline in functions.sql. number rises when
-- the unlogged table has lost its row, as it does with a promotion, a crash and a restore. A row
-- counts only as it was written.
create table if not exists ringfence_elections.number (
    only_row boolean primary key default true check (only_row),
    number   bigint not null default 0
);
create unlogged table if not exists ringfence_elections.boot (
    only_row boolean primary key default true check (only_row),
    written  xid
);

-- The low half of tokens. One sequence for all elections: the server never counts a number twice on
-- a timeline, also after a crash.
create sequence if not exists ringfence_elections.counter as bigint maxvalue 4294967295 no cycle;

-- An enrolment locks the row of the election, so that its tokens are committed in their order. last
-- is the highest of them. The row is never deleted.
create table if not exists ringfence_elections.election (
    resource text collate "C" primary key check (resource ~ '^[a-z][a-z0-9_]{0,47}$'),
    last     bigint not null default 0
) with (fillfactor = 50);

-- The candidate with the lowest token leads.
create table if not exists ringfence_elections.candidate (
    resource text collate "C" not null references ringfence_elections.election,
    token    bigint not null check (token > 0),
    id       text collate "C" not null unique,
    session  text collate "C" not null references ringfence_elections.session on delete cascade,
    holder   text collate "C" not null,
    ready    boolean not null default false,
    primary key (resource, token)
) with (fillfactor = 50);
create index if not exists candidate_by_session on ringfence_elections.candidate (session);

-- Documents. version is never the same twice.
create sequence if not exists ringfence_elections.document_version as bigint;
create table if not exists ringfence_elections.document (
    folder  text collate "C" not null,
    name    text collate "C" not null,
    version bigint not null default nextval('ringfence_elections.document_version'),
    data    bytea not null,
    primary key (folder, name)
) with (fillfactor = 80);

-- Who has taken a resource last (see take), and the highest attempt so far.
create table if not exists ringfence_elections.taken (
    resource text collate "C" primary key,
    holder   text collate "C" not null,
    attempt  bigint
) with (fillfactor = 50);
