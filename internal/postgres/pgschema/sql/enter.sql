-- Transactions under a token, for a program that leads without a guard.

-- enter puts a transaction under a claim, or fails it. It checks the gate, takes the locks that
-- revoke looks for, and checks the gate again. It is right under every isolation level:
--
-- Both locks last until the transaction ends, so revoke can find the transaction in pg_locks from
-- before the second check. One lock is on the empty table ringfence_private.entered, where nobody else can
-- take one. The other is an advisory lock on the raise's number, which identifies the resource. Its
-- second half is the pid, so a transaction that enters again takes no further lock. If somebody
-- holds that one exclusively, the second half is random, so nobody can block it.
--
-- Under READ COMMITTED the second check has its own snapshot, newer than the locks. A raise that it
-- does not see commits later, and then finds the locks. Under REPEATABLE READ and SERIALIZABLE the
-- snapshot may be older than the locks and show a row version that a raise has replaced since. But
-- that version carries the raise's transaction id in its xmax, which does not depend on snapshots
-- (PostgreSQL manual, 5.5 System Columns). So xmax 0 means that this is the newest version.
--
-- The first check spares those that will be refused the locks. It gives the number for the lock, too.
--
-- A gate counts only on the run of the server on which its mark was raised, and only while its row
-- is original. The row of ringfence_private.boot comes with the snapshot of the second check. One that has been
-- replaced since, without an end of this transaction, was taken away while the server ran; then a raise
-- since then has replaced the gate's row, too, and without a raise the gate still has the newest token.
-- Only original rows count here as well, so a transaction without a run does not enter.
--
-- If authorization is on, the session's own role must be allowed to claim the resource, and is told so
-- before anything else. A transaction whose snapshot is from before it was switched on counts as one from
-- before.
--
-- p_candidate is whose term it is, for those who know it: a coordinator that was restored may have
-- given the same number to somebody else.
create or replace function ringfence.enter(p_resource text, p_token bigint, p_issuer text, p_candidate text default '') returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_set text;
    f record;
    g record;
begin
    select t.number, t.token, t.issuer,
           t.token = p_token and t.issuer = p_issuer and t.open and t.written = t.xmin and not t.rolled_back
           and ('' in (p_candidate, t.candidate) or t.candidate = p_candidate) as fits into f
      from ringfence_private.gate t where t.resource = p_resource;
    if f.fits is distinct from true then
        perform ringfence.check_allowed(p_resource, p_token) from ringfence_private.installation i where i.authorize;
        perform ringfence.refuse(p_resource, p_token, p_issuer, f.token, f.issuer, p_candidate);
    end if;
    if not pg_try_advisory_xact_lock_shared(f.number, pg_backend_pid()) then
        while not pg_try_advisory_xact_lock_shared(f.number, hashtext(gen_random_uuid()::text)) loop
        end loop;
    end if;
    lock table ringfence_private.entered in access share mode;
    select i.authorize, t.token, t.issuer, t.xmax <> '0'::xid as touched,
           t.token = p_token and t.issuer = p_issuer and t.run = b.run and t.open and t.written = t.xmin and not t.rolled_back
           and ('' in (p_candidate, t.candidate) or t.candidate = p_candidate) and t.number = f.number as fits into g
      from ringfence_private.installation i
      left join ringfence_private.boot b on b.written = b.xmin and b.started = pg_postmaster_start_time()
                                and b.database = (select d.oid from pg_database d where d.datname = current_database())
      left join ringfence_private.gate t on t.resource = p_resource;
    if g.authorize then
        perform ringfence.check_allowed(p_resource, p_token);
    end if;
    if g.fits is distinct from true then
        perform ringfence.refuse(p_resource, p_token, p_issuer, g.token, g.issuer, p_candidate);
    end if;
    if g.touched and current_setting('transaction_isolation') in ('repeatable read', 'serializable') then
        perform ringfence.newest(p_resource);
    end if;
    v_set := set_config('ringfence.' || p_resource, 'entered ' || p_token || ' ' || p_issuer, true);
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

-- inside lists the transactions that entered before the last raise and have not ended: the pids of
-- their backends, and the names of the prepared ones. Pid 0 is a transaction that is being prepared
-- or finished right now. Call it after the raise has committed: from then on none enters under an
-- older number, so a transaction that is not listed has ended. number is that of the last raise, or
-- null without one: the list says nothing of a later raise.
create or replace function ringfence.inside(p_resource text, out pids integer[], out gids text[], out number integer)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    with held as materialized (
        select * from pg_locks l where l.locktype in ('advisory', 'relation', 'transactionid') and l.granted
    ), older as materialized (
        select unnest(g.older)::bigint as entry from ringfence_private.gate g where g.resource = p_resource
    )
    select coalesce(array_agg(distinct i.pid) filter (where i.gid is null), '{}'),
           coalesce(array_agg(distinct i.gid) filter (where i.gid is not null), '{}'),
           (select g.number from ringfence_private.gate g where g.resource = p_resource)
      into pids, gids, number
      from (
        select coalesce(h.pid, 0) as pid,
               (select min(x.gid) from held own join pg_prepared_xacts x on x.transaction = own.transactionid
                 where h.pid is null and own.virtualtransaction = h.virtualtransaction) as gid
          from held h
         where h.locktype = 'advisory' and h.objsubid = 2 and h.classid::bigint in (select o.entry from older o)
           and h.database = (select d.oid from pg_database d where d.datname = current_database())
           and exists (select from held e where e.locktype = 'relation' and e.mode = 'AccessShareLock' and e.relation = 'ringfence_private.entered'::regclass
                          and e.database = h.database and e.virtualtransaction = h.virtualtransaction)
      ) i;
end $$;

-- is_open returns whether a transaction that began now could enter. It takes no lock, so the answer
-- may be outdated when it returns.
create or replace function ringfence.is_open(p_resource text, p_token bigint, p_issuer text, p_candidate text) returns boolean
language sql volatile security definer set search_path = pg_catalog, pg_temp as $$
    select exists (select from ringfence_private.gate g where g.resource = p_resource and g.token = p_token and g.issuer = p_issuer
                      and ('' in (p_candidate, g.candidate) or g.candidate = p_candidate) and g.open and not g.rolled_back and g.run = ringfence.run() and g.written = g.xmin)
$$;

-- refuse fails a transaction that must not enter, with the reason, in the words of internal/refusal.
create or replace function ringfence.refuse(
    p_resource text, p_token bigint, p_issuer text, p_mark bigint, p_mark_issuer text, p_candidate text default '') returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    m record;
begin
    select k.holder, k.raised_at, k.candidate, k.rolled_back into m from ringfence_private.mark k where k.resource = p_resource;
    if p_mark_issuer <> p_issuer then
        raise exception using errcode = 'RF004', schema = 'ringfence', table = p_resource,
            column = p_token::text, constraint = coalesce(p_mark, 0)::text,
            message = format('token %s of "%s" comes from another issuer than the mark %s', p_token, p_resource, coalesce(p_mark, 0)),
            detail = format('the mark was raised under %s, the token comes from %s: their numbers cannot be compared, so neither is older; nothing of this transaction was written', p_mark_issuer, p_issuer),
            hint = format('an operator checks first that leaders and guards have the same coordinator; if it was rebuilt or replaced, and no older leader runs: guard adopt %s', p_resource);
    elsif m.rolled_back or p_mark = p_token and m.candidate <> '' and p_candidate not in ('', m.candidate) then
        raise exception using errcode = 'RF004', schema = 'ringfence', table = p_resource,
            column = p_token::text, constraint = coalesce(p_mark, 0)::text,
            message = format('the coordinator went back: it gives out tokens of "%s" a second time', p_resource),
            detail = format('a leader had a token that issuer %s has given to another one before, as after a restore from a backup; nothing of this transaction was written', p_issuer),
            hint = format('an operator stops all leaders, paused ones too, and runs: guard adopt --new-issuer %s', p_resource);
    elsif p_mark > p_token then
        raise exception using errcode = 'RF001', schema = 'ringfence', table = p_resource,
            column = p_token::text, constraint = coalesce(p_mark, 0)::text,
            message = format('stale token: %s is older than the mark %s of "%s"', p_token, p_mark, p_resource),
            detail = format('%s raised the mark of this database at %s; nothing of this transaction was written', coalesce(nullif(m.holder, ''), 'a newer leader'),
                to_char(m.raised_at at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')),
            hint = 'this process no longer leads: stop, or campaign for a new token; no retry with this one will succeed';
    end if;
    raise exception using errcode = 'RF012', schema = 'ringfence', table = p_resource,
        column = p_token::text, constraint = coalesce(p_mark, 0)::text,
        message = format('the mark of "%s" is not raised to token %s', p_resource, p_token),
        detail = format('the mark is %s, or what was under it may not have ended, or the server has changed since it was raised; nothing of this transaction was written', coalesce(p_mark, 0)),
        hint = 'raise the mark with this token, then try again (SQL: call take or campaign until ready is true; Go: fence.RetryRaised)';
end $$;
