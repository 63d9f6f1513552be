-- What a program in Go calls that leads without a guard: it asks its coordinator who leads between look and raise_own, and
-- then calls revoke_own until nobody is left.

-- raise_own is raise, for a program.
create or replace function ringfence.raise_own(
    resource text, token bigint, issuer text, holder text, candidate text, basis text,
    out step text, out mark_token bigint, out mark_issuer text, out mark_holder text, out raised_at timestamptz, out confirmed boolean,
    out continued boolean, out adoption text, out mark_candidate text, out rolled_back boolean)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform ringfence.check_caller(array[resource], holder);
    select r.step, r.token, r.issuer, r.holder, r.raised_at, r.confirmed, r.continued, r.adoption, r.candidate, r.rolled_back
      into step, mark_token, mark_issuer, mark_holder, raised_at, confirmed, continued, adoption, mark_candidate, rolled_back
      from ringfence.raise(resource, token, issuer, holder, candidate, basis) r;
end $$;

-- revoke_own is revoke, for a program. It ends backends with the rights of the owner of the functions; blocked has the roles of
-- those that the owner may not end. It ends nobody but who is older than the mark, whoever calls it.
create or replace function ringfence.revoke_own(
    resource text, token bigint, issuer text, signal_at_most integer,
    out current boolean, out gone integer, out remaining integer[], out blocked text[], out prepared text[], out described text[])
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform ringfence.check_caller(array[resource], session_user::text);
    select r.current, r.gone, r.remaining, r.blocked, r.prepared, r.described into current, gone, remaining, blocked, prepared, described
      from ringfence.revoke(resource, token, issuer, signal_at_most) r;
    if current and remaining = '{}' and prepared = '{}' and exists (select from ringfence.leaving()) then
        perform ringfence.end_leaving();
    end if;
end $$;
