-- Who is under a token of this database, or may be. A recorded session that is gone does not count; one
-- whose start the caller may not see does. If the list may lack some, every client counts.
with alive as materialized (
    select a.pid, a.backend_start, a.usename, a.application_name, a.client_addr, a.backend_type, a.datname from pg_stat_activity a
), lost as (
    select where not ringfence.complete()
), entered as (
    select l.pid from pg_locks l
     where l.locktype = 'relation' and l.relation = 'ringfence_private.entered'::regclass and l.pid is distinct from pg_backend_pid()
       and l.database = (select d.oid from pg_database d where d.datname = current_database())
), found(pid, what) as (
    select s.pid, 'a session is open' from (
        select s.pid, s.backend_start from ringfence_private.session s union select l.pid, l.backend_start from ringfence_private.leaving l
    ) s where exists (select from alive a where a.pid = s.pid and coalesce(a.backend_start, s.backend_start) = s.backend_start)
    union all
    select e.pid, case when e.pid is null then 'a prepared transaction is under a token' else 'a transaction is under a token' end from entered e
    union all
    select a.pid, 'the list of sessions is not of this database, so everybody counts, also'
      from alive a where exists (select from lost) and a.datname = current_database() and a.backend_type in ('client backend', 'walsender')
       and a.pid <> pg_backend_pid()
)
select format('%s%s%s%s: end it', f.what, coalesce(': pid ' || f.pid || ' of role ' || a.usename, ''), coalesce(' (' || nullif(a.application_name, '') || ')', ''),
              coalesce(' from ' || host(a.client_addr), ''))
  from (select distinct f.pid, f.what from found f) f left join alive a on a.pid = f.pid
 order by f.what, f.pid limit 10
