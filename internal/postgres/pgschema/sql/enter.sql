-- Transactions under a token.

-- enter puts a transaction under a pass, or fails it. It takes the locks that revoke looks for, and then looks at the
-- gate. Where one look at one row does not show that all is well, enter_as goes the longer way, and finds out why.
--
-- Both locks last until the transaction ends, so revoke can find it in pg_locks from before the look. One lock is on the
-- empty table ringfence_private.entered, where nobody else can take one. The other is an advisory lock on the number of
-- the pass, which identifies the resource and the raise. Its second half is the pid, so a transaction that enters again
-- takes no further lock. If somebody holds that one exclusively, the second half is random, so nobody can block it.
--
-- Under READ COMMITTED the look has its own snapshot, newer than the locks. A raise that it does not see commits later,
-- and then finds the locks. Under REPEATABLE READ and SERIALIZABLE the snapshot may be older than the locks and show a row
-- version that a raise has replaced since. But that version carries the raise's transaction id in its xmax, which does not
-- depend on snapshots (PostgreSQL manual, 5.5 System Columns). So xmax 0 means that this is the newest version.
--
-- Who is refused has taken the locks, too, for a moment. That delays no raise: see inside.
--
-- The look is that of the view ringfence_private.standing, without the view: each transaction pays for it.
create or replace function ringfence.enter(pass text) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_resource text := split_part(pass, ' ', 1);
    v_set text;
begin
    if pg_is_in_recovery() then
        perform ringfence.check_primary();
    end if;
    if not pg_try_advisory_xact_lock_shared(hashtext(pass) & 2147483647, pg_backend_pid()) then
        perform ringfence.lock_elsewhere(hashtext(pass) & 2147483647);
    end if;
    lock table ringfence_private.entered in access share mode;
    perform from ringfence_private.gate g
      where g.resource = v_resource and g.pass = enter.pass and g.open and g.xmax = '0'::xid and g.written = g.xmin
        and g.started = pg_postmaster_start_time() and g.place = rtrim(pg_relation_filepath('ringfence_private.entered'), '0123456789')
        and not ringfence_private.authorizing();
    if found then
        v_set := set_config('ringfence.' || v_resource, 'entered ' || split_part(pass, ' ', 2) || ' ' || split_part(pass, ' ', 3), true);
    else
        perform ringfence.enter_parts(string_to_array(pass, ' '));
    end if;
end $$;

-- enter_parts enters with the parts of a pass.
create or replace function ringfence.enter_parts(p_part text[]) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    if not ringfence.is_pass(p_part) then
        raise exception using errcode = 'RF003', message = 'this is not a valid pass: use the one that campaign or take returned',
            detail = 'nothing of this transaction was written', hint = 'call campaign or take until ready is true, and enter with its pass';
    end if;
    perform ringfence.enter(p_part[1], p_part[2]::bigint, p_part[3], p_part[4]);
end $$;

-- enter puts a transaction under a claim: for those who do not know the pass of the last raise, or know one from before
-- it. The first look at the gate gives the pass, so the locks are taken under the number that counts; the second one, with
-- the locks, decides.
--
-- If authorization is on, the session's own role must be allowed to claim the resource, and is told so before anything
-- else.
--
-- candidate is whose term it is, for those who know it: a coordinator that was restored may have given the same number
-- to somebody else.
create or replace function ringfence.enter(resource text, token bigint, issuer text, candidate text default '') returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_set text;
    v_pass text := (select g.pass from ringfence_private.standing g
                     where g.resource = enter.resource and g.token = enter.token and g.issuer = enter.issuer and g.open
                       and ('' in (enter.candidate, g.candidate) or g.candidate = enter.candidate));
    v_touched boolean;
begin
    if v_pass is not null then
        if not pg_try_advisory_xact_lock_shared(ringfence.number(v_pass), pg_backend_pid()) then
            perform ringfence.lock_elsewhere(ringfence.number(v_pass));
        end if;
        lock table ringfence_private.entered in access share mode;
    end if;
    if ringfence_private.authorizing() then
        perform ringfence.check_allowed(resource, token);
    end if;
    select g.touched into v_touched from ringfence_private.standing g where g.resource = enter.resource and g.pass = v_pass and g.open;
    if not found then
        perform ringfence.refuse(resource, token, issuer, candidate);
    end if;
    if v_touched and current_setting('transaction_isolation') in ('repeatable read', 'serializable') then
        perform ringfence.newest(resource);
    end if;
    v_set := set_config('ringfence.' || resource, 'entered ' || token || ' ' || issuer, true);
end $$;

-- number returns the number of a pass, not negative, for the advisory locks of those that enter under it.
create or replace function ringfence.number(p_pass text) returns integer
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select hashtext(p_pass) & 2147483647
$$;

-- lock_elsewhere takes the advisory lock with a random second half.
create or replace function ringfence.lock_elsewhere(p_number integer) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
begin
    while not pg_try_advisory_xact_lock_shared(p_number, hashtext(gen_random_uuid()::text)) loop
    end loop;
end $$;

-- newest fails with 40001, try again, when the row version of the gate that this transaction sees
-- has been replaced. A raise that was rolled back has replaced nothing; an open one is waited for.
-- The check takes the row's lock in a block that ends with an exception, which releases the lock:
-- the next raise must not have to wait for it.
create or replace function ringfence.newest(p_resource text) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform 1 from ringfence_private.gate t where t.resource = p_resource for share;
    raise exception using errcode = 'RF000';
exception when sqlstate 'RF000' then
    null;
end $$;

-- entered lists who holds the locks of enter, with each number of a two-part advisory lock that it holds: one row has the
-- number of its pass. A prepared transaction has no pid, and a gid unless it is being prepared or finished right now.
--
-- The planner expects few locks, and would compare each with each.
create or replace function ringfence.entered() returns table (virtualtransaction text, number bigint, pid integer, gid text)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set enable_nestloop = off as $$
begin
    return query
    with held as materialized (
        select * from pg_locks l where l.locktype in ('advisory', 'relation', 'transactionid') and l.granted
    )
    select e.virtualtransaction, a.classid::bigint, e.pid,
           case when e.pid is null then (select min(x.gid) from held own join pg_prepared_xacts x on x.transaction = own.transactionid
                                          where own.virtualtransaction = e.virtualtransaction) end
      from held e
      left join held a on a.virtualtransaction = e.virtualtransaction and a.database = e.database and a.locktype = 'advisory' and a.objsubid = 2
     where e.locktype = 'relation' and e.mode = 'AccessShareLock' and e.relation = 'ringfence_private.entered'::regclass
       and e.database = (select d.oid from pg_database d where d.datname = current_database());
end $$;

-- inside lists the transactions that entered before the last raise and have not ended: the pids of their backends, and
-- the names of the prepared ones. Pid 0 is a transaction that is being prepared or finished right now. Call it after the
-- raise has committed: from then on none enters under an older number, so a transaction that is not listed has ended. pass
-- is that of the last raise, or null without one: the list says nothing of a later raise.
--
-- Who is refused holds the same locks for a moment, and may try again and again. So the first call after the raise notes
-- who is there, and later calls list only whom it has noted: by the virtual transaction, which the server gives to no other
-- one (a prepared transaction has another, and always counts: one that is refused is not prepared).
create or replace function ringfence.inside(p_resource text, out pids integer[], out gids text[], out pass text)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    m record;
    v_all text[];
begin
    pids := '{}'; gids := '{}';
    select k.pass, k.older, k.inside, k.written = k.xmin as original, ringfence.is_committed(k.xmin) as committed into m
      from ringfence_private.mark k where k.resource = p_resource;
    pass := m.pass;
    if not found or m.older = '{}' then
        return;
    end if;
    with older as materialized (
        select unnest(m.older)::bigint as number
    ), named as (
        select coalesce(e.pid, 0) as pid, e.gid, e.virtualtransaction from ringfence.entered() e
         where (m.older is null or e.number in (select o.number from older o))
           and (m.inside is null or e.pid is null or e.virtualtransaction = any (m.inside))
    )
    select coalesce(array_agg(distinct n.pid) filter (where n.gid is null), '{}'),
           coalesce(array_agg(distinct n.gid) filter (where n.gid is not null), '{}'), array_agg(distinct n.virtualtransaction)
      into pids, gids, v_all from named n;
    if m.inside is null and m.committed and v_all is not null then
        update ringfence_private.mark k set inside = v_all where k.resource = p_resource and k.pass = m.pass and k.inside is null;
        if found and m.original then
            update ringfence_private.mark k set written = k.xmin where k.resource = p_resource;
        end if;
    end if;
end $$;

-- is_open returns whether a transaction that began now could enter. It takes no lock, so the answer
-- may be outdated when it returns.
create or replace function ringfence.is_open(resource text, token bigint, issuer text, candidate text) returns boolean
language sql volatile security definer set search_path = pg_catalog, pg_temp as $$
    select exists (select from ringfence_private.standing g where g.resource = is_open.resource and g.token = is_open.token and g.issuer = is_open.issuer
                      and ('' in (is_open.candidate, g.candidate) or g.candidate = is_open.candidate) and g.open)
$$;

-- refuse fails a transaction that must not enter, with the reason, in the words of internal/refusal.
create or replace function ringfence.refuse(p_resource text, p_token bigint, p_issuer text, p_candidate text) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    m record;
begin
    select k.token, k.issuer, k.holder, k.raised_at, k.candidate, k.rolled_back into m from ringfence_private.mark k where k.resource = p_resource;
    if m.issuer <> p_issuer then
        raise exception using errcode = 'RF004', schema = 'ringfence', table = p_resource,
            column = p_token::text, constraint = coalesce(m.token, 0)::text,
            message = format('token %s of "%s" comes from another issuer than the mark %s', p_token, p_resource, coalesce(m.token, 0)),
            detail = format('the mark was raised under %s, the token comes from %s: their numbers cannot be compared, so neither is older; nothing of this transaction was written', m.issuer, p_issuer),
            hint = format('an operator checks first that leaders and guards have the same coordinator; if it was rebuilt or replaced, and no older leader runs: guard adopt %s', p_resource);
    elsif m.rolled_back or m.token = p_token and m.candidate <> '' and p_candidate not in ('', m.candidate) then
        raise exception using errcode = 'RF004', schema = 'ringfence', table = p_resource,
            column = p_token::text, constraint = coalesce(m.token, 0)::text,
            message = format('the coordinator went back: it gives out tokens of "%s" a second time', p_resource),
            detail = format('a leader had a token that issuer %s has given to another one before, as after a restore from a backup; nothing of this transaction was written', p_issuer),
            hint = format('an operator stops all leaders, paused ones too, and runs: guard adopt --new-issuer %s', p_resource);
    elsif m.token > p_token then
        raise exception using errcode = 'RF001', schema = 'ringfence', table = p_resource,
            column = p_token::text, constraint = coalesce(m.token, 0)::text,
            message = format('stale token: %s is older than the mark %s of "%s"', p_token, m.token, p_resource),
            detail = format('%s raised the mark of this database at %s; nothing of this transaction was written', coalesce(nullif(m.holder, ''), 'a newer leader'),
                to_char(m.raised_at at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')),
            hint = 'this process no longer leads: stop, or campaign for a new token; no retry with this one will succeed';
    end if;
    raise exception using errcode = 'RF012', schema = 'ringfence', table = p_resource,
        column = p_token::text, constraint = coalesce(m.token, 0)::text,
        message = format('the mark of "%s" is not raised to token %s', p_resource, p_token),
        detail = format('the mark is %s, or what was under it may not have ended, or the server has changed since it was raised; nothing of this transaction was written', coalesce(m.token, 0)),
        hint = 'raise the mark with this token, then try again (SQL: call take or campaign until ready is true; Go: fence.Claim.RetryRaised)';
end $$;
