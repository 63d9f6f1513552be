-- Calls that somebody holds open. What a call for a resource has locked stays locked until its transaction ends. So each
-- call shows for which resources it is, and a call that has waited ends the transactions of older ones.

-- begin_work shows in pg_locks that the caller's transaction works on these resources, until it ends: by advisory locks,
-- which nobody waits for, and by one on a table of ours, as anybody may take the first kind. A lock that is not free soon
-- fails the caller then with 55P03: see free.
create or replace function ringfence.begin_work(p_resources text[]) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_resource text;
begin
    perform set_config('lock_timeout', '500ms', true);
    lock table ringfence_private.mark in access share mode;
    foreach v_resource in array coalesce(p_resources, '{}') loop
        if not pg_try_advisory_xact_lock_shared(ringfence.number('work on ' || v_resource), pg_backend_pid()) then
            perform ringfence.lock_elsewhere(ringfence.number('work on ' || v_resource));
        end if;
    end loop;
end $$;

-- held lists whose transactions have worked on these resources for more than five seconds, and wait for no other one of
-- them. It ends those that the owner of the functions may end, and leaves them out. A prepared transaction has a gid.
create or replace function ringfence.held(resources text[]) returns table (pid integer, gid text, described text)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    h record;
begin
    perform pg_stat_clear_snapshot();
    for h in
        with held as materialized (
            select * from pg_locks l where l.locktype in ('advisory', 'relation', 'transactionid') and l.granted
        ), numbers as materialized (
            select ringfence.number('work on ' || r.resource)::bigint as number from unnest(resources) as r(resource)
        ), working as materialized (
            select distinct w.pid, w.virtualtransaction from held w
             where w.locktype = 'advisory' and w.objsubid = 2 and w.classid::bigint in (select n.number from numbers n)
               and w.pid is distinct from pg_backend_pid()
               and exists (select from held e where e.locktype = 'relation' and e.relation = 'ringfence_private.mark'::regclass
                              and e.database = w.database and e.virtualtransaction = w.virtualtransaction)
               and w.database = (select d.oid from pg_database d where d.datname = current_database())
        )
        select w.pid, a.usesysid, a.application_name, a.state,
               (select min(x.gid) from held own join pg_prepared_xacts x on x.transaction = own.transactionid
                 where w.pid is null and own.virtualtransaction = w.virtualtransaction) as gid
          from working w left join pg_stat_get_activity(null) a on a.pid = w.pid
         where coalesce(a.xact_start <= clock_timestamp() - interval '5 seconds', true)
           and not coalesce(pg_blocking_pids(w.pid) && array(select o.pid from working o where o.pid is not null), false)
    loop
        begin
            continue when pg_terminate_backend(h.pid);
        exception when insufficient_privilege then
            null;
        end;
        pid := h.pid; gid := h.gid;
        described := case when h.pid is null then format('the prepared transaction %L', h.gid)
                     else format('pid %s of role %s%s%s', h.pid, coalesce(pg_get_userbyid(h.usesysid)::text, 'unknown'),
                                 coalesce(' (' || nullif(h.application_name, '') || ')', ''), coalesce(', ' || h.state, '')) end;
        return next;
    end loop;
end $$;

-- free ends the transactions of held, also with the caller's rights, and fails with RF006 if that is not possible. Call it
-- after a call has failed with 55P03, and then make that call again.
create or replace function ringfence.free(resources text[]) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
    h record;
    v_left text[] := '{}';
begin
    for h in select * from ringfence.held(resources) loop
        begin
            continue when pg_terminate_backend(h.pid);
        exception when insufficient_privilege then
            null;
        end;
        v_left := v_left || h.described;
    end loop;
    if v_left <> '{}' then
        raise exception using errcode = 'RF006', schema = 'ringfence', table = array_to_string(resources, ','),
            message = format('a call for "%s" waits for a transaction that has been open for more than five seconds: %s',
                array_to_string(resources, '", "'), array_to_string(v_left, '; ')),
            detail = 'nothing was changed',
            hint = 'end it (a prepared transaction: COMMIT PREPARED or ROLLBACK PREPARED), or GRANT pg_signal_backend to the owner of the functions; then try again';
    end if;
end $$;

-- tries is how often a call waits for a lock, and free_or_fail what it does in between. waits is how many there were.
create or replace function ringfence.tries() returns integer
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select 20
$$;

create or replace function ringfence.free_or_fail(resources text[], waits integer) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
begin
    perform ringfence.free(resources);
    if waits >= ringfence.tries() then
        raise exception using errcode = '55P03', message = format('others call for "%s" all the time', array_to_string(resources, '", "')),
            detail = 'nothing was changed', hint = 'try again';
    end if;
end $$;
