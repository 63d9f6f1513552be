-- Direct sessions: the database itself admits a leader's session when it logs in, by an event trigger (Postgres 17 and
-- later). Nothing of ours stands between the program and the database.

-- admit admits the caller's own session under all that it claims (options=-c fence.<resource>=<token>), or fails. It
-- raises no mark, because it cannot ask a coordinator: whoever has won a term raises it before. attach takes the locks of
-- enter, so a raise finds this transaction, and later the record of the session (model/direct.pml). A claim of a resource
-- that has no mark is none.
create or replace function ringfence_private.admit() returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    c record;
    v_admitted integer := 0;
begin
    if pg_is_in_recovery() then
        raise cannot_connect_now using message = 'this server is a standby: it admits no leader',
            detail = 'nothing of this session was written', hint = 'connect to the primary: target_session_attrs=primary finds it';
    end if;
    -- The record of the session is in an unlogged table, so the login need not wait until the log is on disk.
    perform set_config('synchronous_commit', 'off', true);
    for c in select m.resource, m.issuer, current_setting('fence.' || m.resource, true) as token
               from ringfence_private.mark m
              where current_setting('fence.' || m.resource, true) <> '' order by m.resource loop
        if c.token !~ '^[1-9][0-9]{0,18}$' or c.token::numeric > 9223372036854775807 then
            raise exception using errcode = 'RF003', schema = 'ringfence', table = c.resource,
                message = format('%L is not a token of "%s"', c.token, c.resource),
                detail = 'nothing of this session was written', hint = 'a token is a positive number: take the one of the term';
        end if;
        if not ringfence.attach(pg_backend_pid(), c.resource, c.token::bigint, c.issuer) then
            raise object_not_in_prerequisite_state using
                message = 'a direct session needs READ COMMITTED, a role that is no superuser, and max_prepared_transactions = 0',
                detail = 'nothing of this session was written',
                hint = 'set another isolation level in each transaction, and not for the role or the database';
        end if;
        v_admitted := v_admitted + 1;
    end loop;
    if v_admitted = 0 then
        raise exception using errcode = 'RF002', schema = 'ringfence', message = format(
                'role "%s" may log in here only under a token, and this session has none of a resource with a mark', session_user),
            detail = 'nothing of this session was written',
            hint = 'connect with options=-c fence.<resource>=<token> after the mark was raised, or log in as another role';
    end if;
end $$;

-- direct has the database admit the sessions of these roles, and of no others, from the next login on: see end_others for
-- those that are open. A trial lets everybody in, and writes into the server's log whom it would have refused. Without
-- roles the trigger is removed. Only a superuser can create such a trigger.
--
-- Roles that are not on the list get in whatever is broken in this schema: the list is in the function itself, which looks
-- at nothing else for them. It names each role and its oid, because a dump carries it to other servers. The function is in
-- a schema of its own: if those of Ringfence are dropped, the trigger stays, and refuses whoever is on the list.
create or replace function ringfence.direct(roles name[], trial boolean default false) returns void
language plpgsql volatile security invoker set search_path = pg_catalog, pg_temp as $$
declare
    v_role name;
    v_super boolean;
    v_names text;
    v_list text;
    v_admit text;
begin
    if current_setting('server_version_num')::integer < 170000 then
        raise feature_not_supported using message = 'direct sessions need Postgres 17 or later, which runs a trigger at each login';
    end if;
    perform ringfence.durable();
    if cardinality(roles) = 0 then
        drop event trigger if exists ringfence_login;
        drop schema if exists ringfence_direct cascade;
        return;
    end if;
    foreach v_role in array roles loop
        select o.rolsuper into v_super from pg_roles o where o.rolname = v_role;
        if not found then
            raise undefined_object using message = format('role "%s" does not exist', v_role);
        elsif v_super then
            raise invalid_parameter_value using message = format('role "%s" is a superuser, who could switch the trigger off', v_role);
        end if;
    end loop;
    select string_agg(quote_literal(o.rolname), ', '), string_agg(format('(%L, %s)', o.rolname, o.oid), ', ')
      into v_names, v_list from pg_roles o where o.rolname = any (roles);
    v_admit := 'if to_regprocedure(''ringfence_private.admit()'') is null then
            raise exception using errcode = ''RF005'', message = ''the schema of Ringfence is gone, so nobody can be admitted'',
                detail = ''nothing of this session was written'', hint = ''an operator runs guard install, or guard direct --off'';
        end if;
        perform ringfence_private.admit();';
    if trial then
        v_admit := 'begin
        ' || v_admit || '
        exception when others then
            raise log using errcode = sqlstate, message = ''trial: this login would be refused: '' || sqlerrm;
        end;';
    end if;
    execute 'create schema if not exists ringfence_direct';
    execute format($function$
        create or replace function ringfence_direct.login() returns event_trigger
        language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as %L
    $function$, format('
begin
    if session_user in (%s) and (session_user, to_regrole(quote_ident(session_user))::oid) in (%s) then
        %s
    end if;
end ', v_names, v_list, v_admit));
    if not exists (select from pg_event_trigger e where e.evtname = 'ringfence_login') then
        execute 'create event trigger ringfence_login on login execute function ringfence_direct.login()';
    end if;
    execute 'alter event trigger ringfence_login enable always';
end $$;

-- end_others ends the sessions of these roles that nobody has admitted, and returns how many of them are left. It also
-- counts those that have not logged in yet and began before p_since: they may not know of the trigger.
create or replace function ringfence.end_others(roles name[], p_since timestamptz) returns integer
language plpgsql volatile security invoker set search_path = pg_catalog, pg_temp as $$
begin
    perform pg_stat_clear_snapshot();
    return (select count(case when a.usename is null then true else pg_terminate_backend(a.pid) end)
              from pg_stat_activity a
             where a.backend_type = 'client backend' and a.pid <> pg_backend_pid()
               and case when a.usename is null then a.backend_start <= p_since
                   else a.usename = any (roles) and a.datname = current_database() and not exists (
                        select from ringfence_private.session s where s.pid = a.pid and s.backend_start = a.backend_start) end);
end $$;

-- direct_sessions says whose sessions the database admits itself, as the trigger has it. in_force: it refuses. lost: roles
-- that it names and that are not here under that name and number. They were renamed, and log in as anybody does, or dropped.
create or replace function ringfence.direct_sessions(out roles name[], out lost text[], out trial boolean, out in_force boolean)
language sql stable security invoker set search_path = pg_catalog, pg_temp as $$
    select coalesce(array_agg(o.rolname order by o.rolname collate "C") filter (where o.rolname is not null), '{}'),
           coalesce(array_agg(l.pair order by l.pair collate "C") filter (where l.pair is not null and o.rolname is null), '{}'),
           coalesce(bool_or(f.prosrc like '%trial: %'), false),
           coalesce(bool_and(e.evtenabled = 'A' and e.evtevent = 'login' and f.prosrc not like '%trial: %'), false)
      from pg_event_trigger e join pg_proc f on f.oid = e.evtfoid
      left join lateral (select x[1] as pair from regexp_matches(f.prosrc, '(\(E?''(?:[^'']|'''')*'', [0-9]+\))', 'g') x) l on true
      left join pg_roles o on format('(%L, %s)', o.rolname, o.oid) = l.pair
     where e.evtname = 'ringfence_login'
$$;
