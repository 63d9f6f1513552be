-- A repeated install keeps the server: only the first one, and adopt, vouch for marks.
insert into ringfence.installation (version, server) values ({{.Version}}, ringfence.server())
    on conflict (only_row) do update set version = excluded.version, installed_at = clock_timestamp();
