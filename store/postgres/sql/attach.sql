-- attach admits the caller's own session, as a guard would: it is registered under the claim, so that a raise ends it, and
-- its transactions need no check. It says false where that cannot be, and the caller enters with each transaction: the
-- session is a pooler's (p_pid is what the caller was told at login), a superuser's (whom a guard could not end), or one
-- whose isolation level keeps register from seeing what is committed; or the server knows prepared transactions, which
-- outlive their sessions, and are found only by the lock that enter takes.
create or replace function ringfence.attach(p_pid bigint, p_resource text, p_token bigint, p_issuer text) returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    r record;
    v_start timestamptz;
begin
    if p_pid <> pg_backend_pid() or current_setting('transaction_isolation') <> 'read committed'
       or exists (select from pg_roles o where o.rolname = session_user and o.rolsuper)
       or current_setting('max_prepared_transactions')::integer > 0 then
        return false;
    end if;
    select a.backend_start into strict v_start from pg_stat_get_activity(pg_backend_pid()) a;
    select * into r from ringfence.register(pg_backend_pid(), v_start, array[p_resource], array[p_token], p_issuer);
    if r.step <> 'admitted' then
        perform ringfence.refuse(p_resource, p_token, p_issuer, nullif(r.token, 0), nullif(r.issuer, ''));
    end if;
    perform set_config('ringfence_session.' || p_resource, p_token || ' ' || p_issuer, false);
    return true;
end $$;
