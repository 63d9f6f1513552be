-- Only the very first install, and adopt, vouch for missing marks. The schema ringfence_installed records that there was a
-- first install: after ringfence itself was dropped, sessions may be alive that the new tables do not list. In a copy of
-- the database (CREATE DATABASE ... TEMPLATE, a dump) the rows are of sessions elsewhere. Then the installation lists every
-- session that could be ended, as one of an unknown resource, so that the next revocation of any resource ends it. A
-- session that starts later is admitted only by this list. Sessions of superusers are left out: they are never admitted.
do $$
declare
    v_known boolean := to_regnamespace('ringfence_installed') is not null;
    v_original boolean := (select i.written = i.xmin from ringfence_private.installation i);
    v_complete boolean := ringfence.complete();
begin
    create schema if not exists ringfence_installed;
    comment on schema ringfence_installed is 'Ringfence was installed in this database. Drop it only together with the schema ringfence, and when no client is connected';
    perform pg_stat_clear_snapshot();
    if not v_complete then
        delete from ringfence_private.session s where not exists (
            select from pg_stat_activity a where a.pid = s.pid and a.backend_start = s.backend_start and a.datname = current_database());
        delete from ringfence_private.leaving l where not exists (
            select from pg_stat_activity a where a.pid = l.pid and a.backend_start = l.backend_start and a.datname = current_database());
    end if;
    if not v_complete and v_known then
        insert into ringfence_private.session (resource, token, issuer, pid, backend_start)
        select '*', 0, '', a.pid, a.backend_start
          from pg_stat_activity a join pg_roles o on o.oid = a.usesysid
         where a.datname = current_database() and a.backend_type in ('client backend', 'walsender') and a.pid <> pg_backend_pid()
           and not o.rolsuper and a.backend_start is not null
            on conflict do nothing;
    end if;
    insert into ringfence_private.installation (version, server, registry, unlisted)
    values ({{version}}, case when v_known then '' else ringfence.server() end, ringfence.registry(),
            case when v_known and not ringfence.may_see() then pg_postmaster_start_time() end)
        on conflict (only_row) do update
       set version = excluded.version, installed_at = clock_timestamp(),
           server = case when v_original then ringfence_private.installation.server else '' end, registry = excluded.registry,
           unlisted = case when v_complete then ringfence_private.installation.unlisted else excluded.unlisted end;
    update ringfence_private.installation set written = xmin;
end $$;
