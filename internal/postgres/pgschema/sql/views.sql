-- What people look at, in any client: views for members of pg_monitor.
--
-- None of them names a table of ours, only functions that run with the owner's rights: a statement that nobody may run,
-- such as PREPARE, locks all relations of a view before Postgres looks at privileges. Nothing that programs and guards do
-- names a view. So whoever locks one delays only those who look.
--
-- A view is replaced only where its definition differs, as its comment says: to replace it, and to grant something on it,
-- takes a lock that a stranger can hold up. If somebody does, or something of the user's depends on the view, the older
-- one stays, and the installation warns. To compare, it makes the views where nobody else can name them. The functions keep
-- their columns: one with other columns needs another name, as the view depends on it.

-- transactions lists the transactions that have entered, by the mark that they have entered under. older: before its last
-- raise, so a revocation ends them; under which token is not known then. One that is refused at this moment is not listed.
create or replace function ringfence.transactions()
returns table (resource text, token bigint, older boolean, pid integer, gid text)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set enable_nestloop = off as $$
begin
    perform ringfence.check_primary();
    return query
    with entered as materialized (
        select * from ringfence.entered()
    )
    select m.resource::text, case when not under.older then m.token end, under.older, e.pid, e.gid
      from ringfence_private.mark m
     cross join lateral (
           select ringfence.number(m.pass)::bigint as number, false as older
           union all select o.number, true from unnest(m.older) as o(number)) under
      join entered e on e.number = under.number
     where not under.older or m.inside is null or e.pid is null or e.virtualtransaction = any (m.inside)
    union
    select m.resource::text, null, true, e.pid, e.gid -- it may be any number
      from ringfence_private.mark m cross join entered e
     where m.older is null and (m.inside is null or e.pid is null or e.virtualtransaction = any (m.inside));
end $$;

create view ringfence_private.terms as
select m.resource, m.token, m.holder, m.raised_at, m.confirmed, m.open, m.sessions, m.rolled_back, m.issuer, m.candidate
  from ringfence.marks(null::text[]) m;

create view ringfence_private.sessions as
select s.resource, s.token, s.pid, s.attached, a.usename as role, a.application_name, a.client_addr, a.state, s.backend_start as since
  from ringfence.sessions() s
  left join pg_stat_activity a on a.pid = s.pid and a.backend_start = s.backend_start;

create view ringfence_private.transactions as
select t.resource, t.token, t.older, t.pid, t.gid, coalesce(a.usename, p.owner) as role, a.application_name, a.client_addr, a.state,
       coalesce(a.xact_start, p.prepared) as since
  from ringfence.transactions() t
  left join pg_stat_activity a on a.pid = t.pid
  left join pg_prepared_xacts p on p.gid = t.gid;

do $$
declare
    v_name name;
    v_new regclass;
    v_comment text;
begin
    foreach v_name in array array['terms', 'sessions', 'transactions'] loop
        v_new := format('ringfence_private.%I', v_name)::regclass;
        v_comment := 'Ringfence: for members of pg_monitor. Definition ' || md5(pg_get_viewdef(v_new));
        if obj_description(to_regclass(format('ringfence.%I', v_name)), 'pg_class') = v_comment then
            execute format('drop view %s', v_new);
        else
            begin
                execute format('drop view if exists ringfence.%I', v_name);
                execute format('alter view %s set schema ringfence', v_new);
                execute format('comment on view ringfence.%I is %L', v_name, v_comment);
                execute format('revoke all on type ringfence.%I from public', v_name); -- a table of them would depend on it
                execute format('grant select on ringfence.%I to pg_monitor', v_name);
            exception when lock_not_available or dependent_objects_still_exist then
                execute format('drop view ringfence_private.%I', v_name);
                raise warning using errcode = '01RF0', message = format('the view ringfence.%I is still that of an older version: %s', v_name, sqlerrm),
                    hint = 'end the session that locks it (pg_locks says which), or drop what depends on it; then install again';
            end;
        end if;
    end loop;
end $$;

do $$
declare
    f regprocedure;
begin
    foreach f in array array['ringfence.marks(text[])', 'ringfence.sessions()', 'ringfence.transactions()']::regprocedure[] loop
        if not exists (select from pg_proc p, aclexplode(p.proacl) a where p.oid = f and a.grantee = 'pg_monitor'::regrole) then
            execute format('grant execute on function %s to pg_monitor', f);
        end if;
    end loop;
end $$;
