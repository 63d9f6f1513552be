-- Transactions under a token: what a program calls that leads without a guard in between.

-- enter lets a transaction in, or fails it: it looks at the gate, takes the locks that revoke looks for, and looks again.
-- It is right under every isolation level:
--
-- Both locks are held until the transaction ends, so from before the second look on revoke can see this transaction in
-- pg_locks: one of the empty table ringfence.entered, which nobody else can take, and an advisory one of the raise's number,
-- which tells the resource. The advisory lock's second half is drawn anew each time, so nobody can hold it in the way.
-- Under READ COMMITTED the second look has a snapshot of its own, newer than the locks: a raise that it does not see commits
-- later, and then finds them. Under REPEATABLE READ and SERIALIZABLE the snapshot may be older than the locks and show
-- a row version that a raise has replaced since; but that version carries the raise's transaction id in its xmax, which
-- is no matter of snapshots (PostgreSQL manual, 5.5 System Columns). So xmax 0 says: this is the newest version.
-- The first look keeps those who will be refused away from the locks: an old leader that tries again and again must not
-- look like one that is inside.
--
-- A gate counts only on the run of the server on which its mark was raised, and only while it is original.
create or replace function ringfence.enter(p_resource text, p_token bigint, p_issuer text) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_run text := ringfence.run();
    v_number integer;
    g record;
begin
    for v_look in 1..2 loop
        if v_look = 2 then
            v_number := g.number;
            while not pg_try_advisory_xact_lock_shared(v_number, hashtext(gen_random_uuid()::text)) loop
            end loop;
            perform from ringfence.entered;
        end if;
        select t.token, t.issuer, t.run, t.open, t.number, t.written = t.xmin as original, t.xmax <> '0'::xid as touched into g
          from ringfence.gate t where t.resource = p_resource;
        if (g.token, g.issuer, g.run, g.open, g.original, g.number) is distinct from
           (p_token, p_issuer, v_run, true, true, coalesce(v_number, g.number)) then
            perform ringfence.refuse(p_resource, p_token, p_issuer, g.token, g.issuer);
        end if;
    end loop;
    if g.touched and current_setting('transaction_isolation') in ('repeatable read', 'serializable') then
        perform ringfence.newest(p_resource);
    end if;
    perform set_config('ringfence.' || p_resource, 'entered ' || p_token || ' ' || p_issuer, true);
end $$;

-- newest fails with 40001, try again, when the version of the gate's row that this transaction sees has been replaced. A
-- raise that was rolled back has replaced nothing, and one that is under way is waited for. The row lock that tells is
-- taken in a block of its own, whose end by an exception gives it back: the next raise must not have to wait for it.
create or replace function ringfence.newest(p_resource text) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform 1 from ringfence.gate t where t.resource = p_resource for share;
    raise exception using errcode = 'RF000';
exception when sqlstate 'RF000' then
    null;
end $$;

-- inside lists the transactions that have entered before the last raise and have not ended: the pids of their backends, and
-- the names of those that are prepared; pid 0 is one that is being prepared or finished just now. Ask after the raise has
-- committed: from then on none enters under an older number, so what is not listed is over.
drop function if exists ringfence.inside(text, bigint, text);
create or replace function ringfence.inside(p_resource text, out pids integer[], out gids text[])
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    with held as materialized (
        select * from pg_locks l where l.locktype in ('advisory', 'relation', 'transactionid') and l.granted
    ), older as materialized (
        select unnest(g.older)::bigint as number from ringfence.gate g where g.resource = p_resource
    )
    select coalesce(array_agg(distinct i.pid) filter (where i.gid is null), '{}'),
           coalesce(array_agg(distinct i.gid) filter (where i.gid is not null), '{}')
      into pids, gids
      from (
        select coalesce(h.pid, 0) as pid,
               (select min(x.gid) from held own join pg_prepared_xacts x on x.transaction = own.transactionid
                 where h.pid is null and own.virtualtransaction = h.virtualtransaction) as gid
          from held h
         where h.locktype = 'advisory' and h.objsubid = 2 and h.classid::bigint in (select o.number from older o)
           and h.database = (select d.oid from pg_database d where d.datname = current_database())
           and exists (select from held e where e.locktype = 'relation' and e.mode = 'AccessShareLock' and e.relation = 'ringfence.entered'::regclass
                          and e.database = h.database and e.virtualtransaction = h.virtualtransaction)
      ) i;
end $$;

-- is_open tells whether a transaction that began now could enter. It takes no lock, so it may be wrong when it returns.
create or replace function ringfence.is_open(p_resource text, p_token bigint, p_issuer text) returns boolean
language sql volatile security definer set search_path = pg_catalog, pg_temp as $$
    select exists (select from ringfence.gate g where g.resource = p_resource and g.token = p_token and g.issuer = p_issuer
                      and g.open and g.run = ringfence.run() and g.written = g.xmin)
$$;

-- refuse fails a transaction that may not enter, and says why.
create or replace function ringfence.refuse(p_resource text, p_token bigint, p_issuer text, p_mark bigint, p_mark_issuer text) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    m record;
begin
    select k.holder, k.raised_at into m from ringfence.mark k where k.resource = p_resource;
    if p_mark_issuer <> p_issuer then
        raise exception using errcode = 'RF004', schema = 'ringfence', table = p_resource,
            column = p_token::text, constraint = coalesce(p_mark, 0)::text,
            message = format('the mark of "%s" belongs to issuer %s, token %s comes from issuer %s', p_resource, p_mark_issuer, p_token, p_issuer),
            detail = 'tokens of different coordinators cannot be compared; nothing of this transaction was written',
            hint = format('if the coordinator was rebuilt, an operator decides: guard adopt %s', p_resource);
    elsif p_mark > p_token then
        raise exception using errcode = 'RF001', schema = 'ringfence', table = p_resource,
            column = p_token::text, constraint = coalesce(p_mark, 0)::text,
            message = format('stale token %s for "%s": the mark is %s', p_token, p_resource, p_mark),
            detail = format('%s raised it at %s; nothing of this transaction was written', m.holder, m.raised_at),
            hint = 'this process no longer leads: stop, and stand for election again';
    end if;
    raise exception using errcode = 'RF007', schema = 'ringfence', table = p_resource,
        column = p_token::text, constraint = coalesce(p_mark, 0)::text,
        message = format('the mark of "%s" is not raised to token %s', p_resource, p_token),
        detail = format('the mark is %s, or what was under it may not have ended, or the server has changed since it was raised; nothing of this transaction was written', coalesce(p_mark, 0)),
        hint = 'raise the mark with this token, then try the transaction again';
end $$;
