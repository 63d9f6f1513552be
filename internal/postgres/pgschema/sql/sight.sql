-- What the guard's role and the owner of the functions need of the server: to see all sessions, and to end them. Without a
-- guard the owner's functions end them. A role that is no superuser grants what it may, and managed services differ in
-- that: pg_monitor contains pg_read_all_stats. What cannot be granted fails nothing here. A warning says
-- what to ask for.
set local ringfence._role = {{role literal}};
do $$
declare
    v_guard name := nullif(current_setting('ringfence._role'), '');
    v_ends name := coalesce(v_guard, current_user);
    v_grant record;
begin
    for v_grant in
        select * from (values (v_guard, 'pg_read_all_stats', 'pg_read_all_stats'), (v_guard, 'pg_read_all_stats', 'pg_monitor'),
                              (v_ends, 'pg_signal_backend', 'pg_signal_backend'),
                              (current_user, 'pg_read_all_stats', 'pg_read_all_stats'), (current_user, 'pg_read_all_stats', 'pg_monitor')) g (role, needs, contains)
         where role is not null
    loop
        continue when pg_has_role(v_grant.role, v_grant.needs, 'usage');
        begin
            execute format('grant %I to %I', v_grant.contains, v_grant.role);
        exception when insufficient_privilege or invalid_grant_operation or unique_violation then -- another installation grants it
            null;
        end;
    end loop;
    if not pg_has_role(v_guard, 'pg_read_all_stats', 'usage') then
        raise warning using errcode = '01RF0',
            message = format('the guard''s role %s cannot see the sessions of other roles, and serves nobody until it can', v_guard),
            hint = format('ask whoever may for one of: GRANT pg_read_all_stats TO %1$I; GRANT pg_monitor TO %1$I', v_guard);
    end if;
    if not pg_has_role(v_ends, 'pg_signal_backend', 'usage') then
        raise warning using errcode = '01RF0',
            message = format('%s %s ends only sessions of its own role and of roles that are granted to it: '
                || 'a take-over fails while older sessions of other roles live',
                case when v_guard is null then 'role' else 'the guard''s role' end, v_ends),
            hint = format('ask whoever may for GRANT pg_signal_backend TO %1$I; or grant each role that leaders log in as: GRANT app TO %1$I', v_ends);
    end if;
    if not pg_has_role(current_user, 'pg_read_all_stats', 'usage') then
        raise warning using errcode = '01RF0',
            message = format('role %s, which owns the functions, cannot see when sessions of other roles began: '
                || 'programs enter with each transaction instead of attaching, and sealed tables refuse sessions of guards', current_user),
            hint = format('ask whoever may for one of: GRANT pg_read_all_stats TO %1$I; GRANT pg_monitor TO %1$I', current_user);
    end if;
end $$;
