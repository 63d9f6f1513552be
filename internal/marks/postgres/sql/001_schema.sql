-- Version 1: marks, sessions, the audit of adoptions. Every statement here may be repeated. A later
-- version is a file of its own that runs after this one.

create schema if not exists ringfence;
comment on schema ringfence is 'Ringfence: who may write. See guard install --print';

-- One row. server is the server (see ringfence.server) for which an operator last vouched for the
-- marks. On another server (a failover, a restore) a missing mark does not mean that there never
-- was one.
create table if not exists ringfence.installation (
    only_row     boolean primary key default true check (only_row),
    version      integer not null,
    server       text collate "C" not null,
    installed_at timestamptz not null default clock_timestamp()
);

-- The mark: the highest token accepted for a resource. The table is logged, so a mark is as durable
-- as the other data.
create table if not exists ringfence.mark (
    resource  text collate "C" primary key check (resource ~ '^[a-z][a-z0-9_]{0,47}$'),
    token     bigint not null check (token >= 0),
    issuer    text collate "C" not null,
    holder    text collate "C" not null,
    raised_at timestamptz not null default clock_timestamp(),
    server    text collate "C" not null
);

-- The sessions admitted under a mark. The table is unlogged: a crash that empties it has ended
-- every session that it listed.
create unlogged table if not exists ringfence.session (
    resource      text collate "C" not null,
    token         bigint not null,
    issuer        text collate "C" not null,
    pid           integer not null,
    backend_start timestamptz not null,
    primary key (resource, pid, backend_start)
);
create index if not exists session_by_process on ringfence.session (pid, backend_start);
create index if not exists session_by_token on ringfence.session (resource, token);

-- Which operator started which issuer's count, and the mark before.
create table if not exists ringfence.adoption (
    adopted_at timestamptz not null default clock_timestamp(),
    by_role    name not null default session_user,
    by_holder  text collate "C" not null,
    resource   text collate "C" not null,
    old_issuer text collate "C",
    old_token  bigint,
    new_issuer text collate "C" not null,
    new_token  bigint not null
);
