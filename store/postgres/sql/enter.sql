-- Transactions under a token: what a program calls that leads without a guard in between.

-- server is the identity of the database as marks remember it: it changes with a failover or a restore. It is no SQL
-- function because enter calls it: those are parsed and planned anew in every transaction.
create or replace function ringfence.server() returns text
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    return (pg_control_system()).system_identifier || '/' || substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8);
end $$;

-- enter lets a transaction in, or fails it: it looks at the gate, takes the shared lock that revoke looks for, and looks
-- again. It is right under every isolation level:
--
-- The lock is held until the transaction ends, so that from before the second look on revoke can see this transaction in
-- pg_locks. Nobody ever takes it in a way that conflicts, so nobody waits for it.
-- Under READ COMMITTED the second look has a snapshot of its own, newer than the lock: a raise that it does not see commits
-- later, and then finds the lock. Under REPEATABLE READ and SERIALIZABLE the snapshot may be older than the lock and show
-- a row version that a raise has replaced since; but that version carries the raise's transaction id in its xmax, which
-- is no matter of snapshots (PostgreSQL manual, 5.5 System Columns). So xmax 0 says: this is the newest version.
-- The first look keeps those who will be refused away from the lock: an old leader that tries again and again must not
-- look like one that is inside.
--
-- The lock's key is 64 bits of a hash: a chance meeting with somebody else's key is as good as excluded, and would do no
-- more than make a raise end a backend too many.
create or replace function ringfence.enter(p_resource text, p_token bigint, p_issuer text) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_server text := ringfence.server();
    g record;
begin
    for v_look in 1..2 loop
        if v_look = 2 then
            perform pg_advisory_xact_lock_shared(hashtextextended('ringfence ' || p_resource, 0));
        end if;
        select t.token, t.issuer, t.server, t.open, t.xmax <> '0'::xid as touched into g
          from ringfence.gate t where t.resource = p_resource;
        if (g.token, g.issuer, g.server, g.open) is distinct from (p_token, p_issuer, v_server, true) then
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

-- inside lists the transactions that have entered and have not ended: the pids of their backends, and the names of those
-- that are prepared; pid 0 is one that is being prepared or finished just now. Ask after the raise has committed: from then
-- on none enters under an older token, so what is not listed is over. Once the gate is open for this mark it lists nobody: it was
-- opened when nobody was left, so those inside have entered since.
create or replace function ringfence.inside(p_resource text, p_token bigint, p_issuer text, out pids integer[], out gids text[])
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    with held as materialized (select * from pg_locks l where l.locktype in ('advisory', 'transactionid') and l.granted)
    select coalesce(array_agg(distinct i.pid) filter (where i.gid is null), '{}'),
           coalesce(array_agg(distinct i.gid) filter (where i.gid is not null), '{}')
      into pids, gids
      from (
        select coalesce(h.pid, 0) as pid,
               (select min(x.gid) from held own join pg_prepared_xacts x on x.transaction = own.transactionid
                 where h.pid is null and own.virtualtransaction = h.virtualtransaction) as gid
          from held h
         where h.locktype = 'advisory' and h.objsubid = 1
           and (h.classid::bigint << 32) | h.objid::bigint = hashtextextended('ringfence ' || p_resource, 0)
           and h.database = (select d.oid from pg_database d where d.datname = current_database())
      ) i;
    -- Asked after the list: it may have been opened, and entered, in between.
    if exists (select from ringfence.gate g where g.resource = p_resource and g.token = p_token and g.issuer = p_issuer and g.open) then
        pids := '{}'; gids := '{}';
    end if;
end $$;

-- is_open tells whether a transaction that began now could enter. It takes no lock, so it may be wrong when it returns.
create or replace function ringfence.is_open(p_resource text, p_token bigint, p_issuer text) returns boolean
language sql volatile security definer set search_path = pg_catalog, pg_temp as $$
    select exists (select from ringfence.gate g where g.resource = p_resource and g.token = p_token and g.issuer = p_issuer
                      and g.open and g.server = ringfence.server())
$$;

-- refuse fails a transaction that may not enter, and says why.
create or replace function ringfence.refuse(p_resource text, p_token bigint, p_issuer text, p_mark bigint, p_mark_issuer text) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    m record;
begin
    select k.holder, k.raised_at into m from ringfence.mark k where k.resource = p_resource;
    if p_mark_issuer <> p_issuer then
        raise exception using errcode = 'RF004',
            message = format('the mark of "%s" belongs to issuer %s, token %s comes from issuer %s', p_resource, p_mark_issuer, p_token, p_issuer),
            detail = 'tokens of different coordinators cannot be compared; nothing of this transaction was written',
            hint = format('if the coordinator was rebuilt, an operator decides: guard adopt %s', p_resource);
    elsif p_mark > p_token then
        raise exception using errcode = 'RF001',
            message = format('stale token %s for "%s": the mark is %s', p_token, p_resource, p_mark),
            detail = format('%s raised it at %s; nothing of this transaction was written', m.holder, m.raised_at),
            hint = 'this process no longer leads: stop, and stand for election again';
    end if;
    raise exception using errcode = 'RF007',
        message = format('the mark of "%s" is not raised to token %s', p_resource, p_token),
        detail = format('the mark is %s, or what was under it may not have ended, or the server has changed since it was raised; nothing of this transaction was written', coalesce(p_mark, 0)),
        hint = 'raise the mark with this token, then try the transaction again';
end $$;
