-- Only the very first install, and adopt, vouch for missing marks. The schema ringfence_installed
-- records that there was a first install: after ringfence itself was dropped, sessions may be alive
-- that the new tables do not list.
do $$
declare
    v_known boolean := to_regnamespace('ringfence_installed') is not null;
    v_original boolean := (select i.written = i.xmin from ringfence_private.installation i);
begin
    perform ringfence.begin_run();
    create schema if not exists ringfence_installed;
    comment on schema ringfence_installed is 'Ringfence was installed in this database. Drop it only together with the schema ringfence, and when no client is connected';
    insert into ringfence_private.installation (version, server, registry)
    values ({{version}}, case when v_known then '' else ringfence.server() end, case when not v_known then ringfence.registry() end)
        on conflict (only_row) do update
       set version = excluded.version, installed_at = clock_timestamp(),
           server = case when v_original then ringfence_private.installation.server else '' end,
           registry = case when v_original then ringfence_private.installation.registry end;
    update ringfence_private.installation set written = xmin;
end $$;
