-- Version 5: sealed tables. The triggers on them decide (see seal); this table is only what the
-- operator has asked for, by name, so that guard check finds a table that has lost its trigger.
create table if not exists ringfence.sealed (
    schema_name name not null,
    table_name  name not null,
    resource    text collate "C" not null check (resource ~ '^[a-z][a-z0-9_]{0,47}$'),
    sealed_at   timestamptz not null default clock_timestamp(),
    sealed_by   name not null default session_user,
    primary key (schema_name, table_name)
);

-- When a backend started, in microseconds, as seal remembers it. Only currval is used: it is the
-- value that the caller's own backend has set. Only the schema's owner has a privilege on the
-- sequence.
create sequence if not exists ringfence.birth;
