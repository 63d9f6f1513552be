-- Version 2: checkpoints. One row per task; version counts the published checkpoints.
create table if not exists ringfence.checkpoint (
    task       text collate "C" primary key,
    resource   text collate "C" not null,
    version    bigint not null check (version > 0),
    token      bigint not null,
    checkpoint json not null,
    saved_at   timestamptz not null default clock_timestamp()
) with (fillfactor = 50);
