-- Transactions under a token: what a program calls that leads without a guard in between.

-- entrance is the advisory lock of a resource, or of one term of it. 64 bits of a hash: a chance meeting with somebody
-- else's key is as good as excluded, and would do no more than make a raise end a backend too many.
create or replace function ringfence.entrance(p_resource text) returns bigint
language sql immutable parallel safe set search_path = pg_catalog, pg_temp as $$
    select hashtextextended('ringfence ' || p_resource, 0)
$$;
create or replace function ringfence.entrance(p_resource text, p_token bigint, p_issuer text) returns bigint
language sql immutable parallel safe set search_path = pg_catalog, pg_temp as $$
    select hashtextextended('ringfence ' || p_resource || ' ' || p_token || ' ' || p_issuer, 0)
$$;

-- enter lets a transaction in, or fails it. It is right under every isolation level:
--
-- The shared locks come first and are held until the transaction ends, so that from before the check on revoke can see
-- this transaction in pg_locks. Nobody ever takes them in a way that conflicts, so nobody waits for them.
-- Then the gate is read. Under READ COMMITTED the statement below has a snapshot of its own, newer than the locks: a raise
-- that it does not see commits later, and then finds the locks. Under REPEATABLE READ and SERIALIZABLE the snapshot may
-- be older than the locks and show a row version that a raise has replaced since; but that version carries the raise's
-- transaction id in its xmax, which is no matter of snapshots (PostgreSQL manual, 5.5 System Columns), and the gate is
-- never locked by anybody else. So xmax 0 says: this is the newest version. Otherwise the locking read tells a raise
-- that was rolled back (it returns the row) from one that was not (it fails with 40001, try again).
create or replace function ringfence.enter(p_resource text, p_token bigint, p_issuer text) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    g record;
begin
    perform pg_advisory_xact_lock_shared(ringfence.entrance(p_resource, p_token, p_issuer)); -- before the other: see inside
    perform pg_advisory_xact_lock_shared(ringfence.entrance(p_resource));
    select t.token, t.issuer, t.server, t.open, t.xmax::text::bigint as xmax into g from ringfence.gate t where t.resource = p_resource;
    if g.xmax <> 0 and current_setting('transaction_isolation') <> 'read committed' then
        perform 1 from ringfence.gate t where t.resource = p_resource for share;
    end if;
    if g.token is distinct from p_token or g.issuer <> p_issuer or not g.open or g.server <> ringfence.server() then
        perform ringfence.refuse(p_resource, p_token, p_issuer, g.token, g.issuer);
    end if;
    perform set_config('ringfence.' || p_resource, p_token || ' ' || p_issuer, true);
end $$;

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
