-- attach admits the caller's own session. It enters, so that a raise finds this transaction, and
-- records the session, so that later a raise ends the session. The session's later transactions
-- need no check. It takes no lock that anybody waits for, so a transaction that attaches and stays
-- open delays nobody.
--
-- It also gives the session a number and writes it into the record, so that publish finds the record
-- without looking up when its backend started: see numbered. If a guard has registered the session
-- under this claim, its record gets the number too.
--
-- It returns false where a session cannot attach, and then the caller enters with each transaction:
-- the session is a pooler's (pid is the pid that the caller got at login), a superuser's (a guard
-- could not end it), or has an isolation level that hides what is committed meanwhile; or the
-- server allows prepared transactions, which survive their sessions and are found only by the locks
-- that enter takes.
create or replace function ringfence.attach(
    pid bigint, resource text, token bigint, issuer text, candidate text default '') returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column -- of ON CONFLICT
declare
    v_start timestamptz := ringfence.own_start();
begin
    if v_start is null or pid <> pg_backend_pid() or current_setting('transaction_isolation') <> 'read committed'
       or exists (select from pg_roles o where o.rolname = session_user and o.rolsuper)
       or current_setting('max_prepared_transactions')::integer > 0 then
        return false;
    end if;
    perform ringfence.enter(resource, token, issuer, candidate);
    insert into ringfence_private.session as s (resource, token, issuer, pid, backend_start, attachment)
    values (attach.resource, attach.token, attach.issuer, pg_backend_pid(), v_start, nextval('ringfence_private.attachment'))
        on conflict (resource, pid, backend_start) do update set attachment = excluded.attachment
     where s.token = excluded.token and s.issuer = excluded.issuer;
    perform set_config('ringfence._numbered', 'true', false);
    return true;
end $$;
