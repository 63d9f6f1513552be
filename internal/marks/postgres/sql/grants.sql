-- What the guard's role needs, and nothing more. The role is no superuser and owns nothing here.
revoke all on schema ringfence from public;
revoke all on all tables in schema ringfence from public;
revoke all on all sequences in schema ringfence from public;
revoke all on all functions in schema ringfence from public;

grant usage on schema ringfence to {{guard}};
grant execute on all functions in schema ringfence to {{guard}};
-- Only those who hand out terms know that a claim leads.
revoke execute on function ringfence.begin_term(text, bigint, text, text, text), ringfence.stand(text[], text, interval),
    ringfence.take_term(text, text, bigint), ringfence.bring_term(text, bigint, text, text) from {{guard}};
revoke execute on function ringfence.allow(name, text), ringfence.forbid(name, text), ringfence.authorize(boolean) from {{guard}};

-- What every role may call: whether its own session is admitted, and which session of which server
-- it is.
grant usage on schema ringfence to public;
grant execute on function ringfence.holds(text, bigint) to public;
grant execute on function ringfence.leg(), ringfence.own_start(), ringfence.run() to public;

-- Every role may put a transaction under a token: enter only reads the gate.
grant execute on function ringfence.enter(text, bigint, text, text), ringfence.enter(text) to public;
grant execute on function ringfence.is_open(text, bigint, text, text) to public;
grant execute on function ringfence.attach(bigint, text, bigint, text, text) to public;

-- What the guard's role, and the owner of the functions, need of the server: to see all sessions, and
-- the guard to end them. A role that is no superuser grants what it may, and managed services differ in
-- that: pg_monitor contains pg_read_all_stats. What cannot be granted fails nothing here. A warning says
-- what to ask for.
set local ringfence._guard = {{guard literal}};
do $$
declare
    v_guard name := current_setting('ringfence._guard');
    v_grant record;
begin
    for v_grant in
        select * from (values (v_guard, 'pg_read_all_stats', 'pg_read_all_stats'), (v_guard, 'pg_read_all_stats', 'pg_monitor'),
                              (v_guard, 'pg_signal_backend', 'pg_signal_backend'),
                              (current_user, 'pg_read_all_stats', 'pg_read_all_stats'), (current_user, 'pg_read_all_stats', 'pg_monitor')) g (role, needs, contains)
    loop
        continue when pg_has_role(v_grant.role, v_grant.needs, 'usage');
        begin
            execute format('grant %I to %I', v_grant.contains, v_grant.role);
        exception when insufficient_privilege or invalid_grant_operation then
            null;
        end;
    end loop;
    if not pg_has_role(v_guard, 'pg_read_all_stats', 'usage') then
        raise warning using errcode = '01RF0',
            message = format('the guard''s role %s cannot see the sessions of other roles, and serves nobody until it can', v_guard),
            hint = format('ask whoever may for one of: GRANT pg_read_all_stats TO %1$I; GRANT pg_monitor TO %1$I', v_guard);
    end if;
    if not pg_has_role(v_guard, 'pg_signal_backend', 'usage') then
        raise warning using errcode = '01RF0',
            message = format('the guard''s role %s ends only sessions of its own role and of roles that are granted to it: '
                || 'a take-over fails while older sessions of other roles live', v_guard),
            hint = format('ask whoever may for GRANT pg_signal_backend TO %1$I; or grant each role that leaders log in as: GRANT app TO %1$I', v_guard);
    end if;
    if not pg_has_role(current_user, 'pg_read_all_stats', 'usage') then
        raise warning using errcode = '01RF0',
            message = format('role %s, which owns the functions, cannot see when sessions of other roles began: '
                || 'programs enter with each transaction instead of attaching, and sealed tables refuse sessions of guards', current_user),
            hint = format('ask whoever may for one of: GRANT pg_read_all_stats TO %1$I; GRANT pg_monitor TO %1$I', current_user);
    end if;
end $$;
