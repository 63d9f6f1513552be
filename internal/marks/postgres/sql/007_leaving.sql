-- Version 7: the backends of sessions that were let go. Their records are closed, and they are to end.
-- The table is unlogged: a crash that empties it has ended every backend that it listed.
create unlogged table if not exists ringfence.leaving (
    pid           integer not null,
    backend_start timestamptz not null,
    primary key (pid, backend_start)
);
alter table ringfence.leaving set (autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0.1);
