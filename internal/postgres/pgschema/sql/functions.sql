-- The functions of a guard. Every install replaces them, so they always match the program that
-- installed them. SECURITY DEFINER functions use only the tables of this schema. What needs a
-- privilege of the server (reading pg_stat_activity, ending a backend) runs with the caller's own.

-- version returns the version of the schema.
create or replace function ringfence.version() returns integer
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    select version from ringfence_private.installation
$$;

-- check_isolation fails unless the level is READ COMMITTED: each statement below must see what was
-- committed before it started, also after it has waited for a lock.
create or replace function ringfence.check_isolation() returns void
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception 'ringfence functions need READ COMMITTED, this transaction is %', current_setting('transaction_isolation');
    end if;
end $$;

-- complete returns whether ringfence_private.session lists every session that may be alive.
create or replace function ringfence.complete() returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    return exists (select from ringfence_private.installation i where i.registry = ringfence.registry() and i.written = i.xmin);
end $$;

-- register admits a session, or returns the step that is missing. It holds the marks locked against
-- raise until it has committed, so a raise waits for it and then finds the session in its list.
-- Registrations wait for this lock too: with a shared lock they would pass a waiting raise, and
-- many of them would keep it waiting forever. Only guards call it, each in a separate transaction,
-- so nobody holds the lock for long.
-- step is one of: admitted, raise, revoke, stale, issuer, elsewhere, forbidden. The other columns are
-- the mark that the step is about. A candidate is empty where nobody knows it.
-- If the step is raise, basis is what look would return now, and older is how many sessions a
-- revocation would end: those of the resource that would be under another token, and those that are
-- leaving. Otherwise they are empty and 0.
-- If authorization is on, a session whose role may not claim one of the resources gets no further
-- than forbidden: it locks nothing, and nobody raises a mark for it. basis is the role then, and
-- nothing of the mark is returned.
create or replace function ringfence.register(
    p_pid integer, p_backend_start timestamptz, p_run text, p_resources text[], p_tokens bigint[], p_candidates text[], p_issuer text,
    out step text, out resource text, out token bigint, out issuer text, out holder text, out raised_at timestamptz,
    out confirmed boolean, out continued boolean, out adoption text, out candidate text, out rolled_back boolean,
    out basis text, out older bigint)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_run text := ringfence.begin_run();
    v_server text := ringfence.server(); -- begin_run may change it
    v_complete boolean;
    v_vouched boolean;
    v_role oid;
begin
    perform ringfence.check_isolation();
    basis := ''; older := 0; token := 0; issuer := ''; holder := ''; confirmed := false; continued := false;
    adoption := ''; candidate := ''; rolled_back := false;
    if p_run is distinct from v_run then
        step := 'elsewhere'; resource := '';
        return;
    end if;
    if ringfence.authorizing() then
        v_role := ringfence.role_of(p_pid);
        resource := ringfence.forbidden(v_role, p_resources);
        if resource is not null then
            step := 'forbidden';
            basis := coalesce((select o.rolname from pg_roles o where o.oid = v_role), '');
            return;
        end if;
    end if;
    perform set_config('synchronous_commit', 'off', true); -- a session that a crash forgets is a session that it ended
    perform 1 from ringfence_private.mark m where m.resource = any (p_resources) order by m.resource for no key update;
    select i.written = i.xmin and coalesce(i.registry = ringfence.registry(), false), i.written = i.xmin and i.server = v_server
      into v_complete, v_vouched from ringfence_private.installation i;

    select w.step, w.resource, coalesce(w.token, 0), coalesce(w.issuer, ''), coalesce(w.holder, ''), w.raised_at, w.confirmed, w.continued,
           coalesce(w.adoption, ''), coalesce(w.candidate, ''), coalesce(w.rolled_back, false)
      into step, resource, token, issuer, holder, raised_at, confirmed, continued, adoption, candidate, rolled_back
      from (
        select case
                 when m.issuer <> p_issuer or m.rolled_back then 'issuer'
                 when m.token > wanted.token then 'stale'
                 when m.token = wanted.token and wanted.candidate in ('', m.candidate)
                      and m.run = v_run and m.written = m.xmin and gate.fits then
                   case when v_complete and (gate.open or ringfence.nobody_left(m.resource, m.token, m.issuer)) then 'admitted' else 'revoke' end
                 else 'raise'
               end as step,
               wanted.place, wanted.resource, m.token, m.issuer, m.holder, m.raised_at, m.adoption, m.candidate, m.rolled_back,
               case when m.resource is null then v_vouched and v_complete else coalesce(m.run = v_run and m.written = m.xmin, false) end as confirmed,
               case when m.resource is null then v_vouched else coalesce(m.server = v_server and m.written = m.xmin, false) end as continued
          from unnest(p_resources, p_tokens, p_candidates) with ordinality as wanted(resource, token, candidate, place)
          left join ringfence_private.mark m on m.resource = wanted.resource
          left join lateral (
            select g.open, (g.token, g.issuer, g.run) = (m.token, m.issuer, m.run) and g.written = g.xmin as fits
              from ringfence_private.gate g where g.resource = m.resource
          ) gate on true
      ) w
     order by array_position(array['issuer', 'stale', 'raise', 'revoke', 'admitted'], w.step), w.place
     limit 1;

    if step = 'admitted' then
        insert into ringfence_private.session (resource, token, issuer, pid, backend_start)
        select wanted.resource, wanted.token, p_issuer, p_pid, p_backend_start
          from unnest(p_resources, p_tokens) as wanted(resource, token)
            on conflict do nothing;
        -- An open gate stays open while its mark is locked, and its number stays, too.
        perform ringfence.open(wanted.resource, wanted.token, p_issuer, g.number)
           from unnest(p_resources, p_tokens) as wanted(resource, token) join ringfence_private.gate g on g.resource = wanted.resource
          where not g.open;
    elsif step = 'raise' then
        -- The mark and its basis must come from one look: a mark that is not there cannot be
        -- locked, so somebody may have raised it since the statement above.
        select l.token, l.issuer, l.holder, l.raised_at, l.confirmed, l.continued, l.adoption, l.candidate, l.rolled_back, l.basis
          into token, issuer, holder, raised_at, confirmed, continued, adoption, candidate, rolled_back, basis
          from ringfence.look(resource) l;
        select count(*) + (select count(*) from ringfence_private.leaving) into older
          from unnest(p_resources, p_tokens) as wanted(resource, token)
          join ringfence_private.session s on s.resource = wanted.resource and (s.token <> wanted.token or s.issuer <> p_issuer)
         where wanted.resource = register.resource;
    end if;
end $$;

-- nobody_left returns whether no transaction from before the last raise and no session of another
-- token is left. It checks transactions first: one that attaches is inside until the record of its
-- session is visible.
create or replace function ringfence.nobody_left(p_resource text, p_token bigint, p_issuer text) returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    if exists (select from ringfence.inside(p_resource) i where i.pids <> '{}' or i.gids <> '{}') then
        return false;
    end if;
    return not exists (select from ringfence.others(p_resource, p_token, p_issuer));
end $$;

-- look reads what a raise of a resource depends on: the current mark, and a basis that raise
-- compares. The basis changes with the run, with the tables, and with every write of the mark, by
-- another raise or by a restore.
create or replace function ringfence.look(
    p_resource text,
    out token bigint, out issuer text, out holder text, out raised_at timestamptz, out confirmed boolean, out continued boolean,
    out adoption text, out candidate text, out rolled_back boolean, out basis text)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_run text := ringfence.begin_run();
    v_server text := ringfence.server(); -- begin_run may change it
    m record;
    i record;
begin
    select k.*, k.xmin as row_xmin into m from ringfence_private.mark k where k.resource = p_resource;
    select n.*, n.xmin as row_xmin, n.registry = ringfence.registry() as complete into i from ringfence_private.installation n;
    token := coalesce(m.token, 0); issuer := coalesce(m.issuer, ''); holder := coalesce(m.holder, ''); raised_at := m.raised_at;
    adoption := coalesce(m.adoption, ''); candidate := coalesce(m.candidate, ''); rolled_back := coalesce(m.rolled_back, false);
    if m.resource is null then
        continued := coalesce(i.server = v_server and i.written = i.row_xmin, false);
        confirmed := continued and coalesce(i.complete, false);
    else
        continued := coalesce(m.server = v_server and m.written = m.row_xmin, false);
        confirmed := coalesce(m.run = v_run and m.written = m.row_xmin, false);
    end if;
    basis := concat_ws(' ', v_run, 'ringfence_private.mark'::regclass::oid, i.row_xmin, coalesce(m.row_xmin::text, '-'));
end $$;

-- raise raises a mark, never lowers it, and confirms it for this run, if nothing that it depends on
-- has changed since look returned p_basis. So a delayed raise does not count on a server that was
-- restarted, or for a mark that was rolled back. It is durable when the statement returns, whatever
-- the defaults of the role or the database are.
-- The caller has asked whether the claim leads, after look. So a claim that is below the mark, or has
-- its number as another candidate, is of a coordinator that was rolled back. raise writes that down with
-- the mark. From then on nobody of that issuer is admitted, until adopt: each further try of a leader
-- counts up, and would be above the mark sooner or later.
-- step is one of: raised, rolled back, issuer, changed. The other columns are the mark before (token 0:
-- there was none).
create or replace function ringfence.raise(
    p_resource text, p_token bigint, p_issuer text, p_holder text, p_candidate text, p_basis text,
    out step text, out token bigint, out issuer text, out holder text, out raised_at timestamptz, out confirmed boolean,
    out continued boolean, out adoption text, out candidate text, out rolled_back boolean)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_basis text;
    v_there boolean;
begin
    perform ringfence.check_isolation();
    perform ringfence.durable();
    perform ringfence.begin_run();
    perform 1 from ringfence_private.mark m where m.resource = p_resource for update;
    v_there := found;
    select l.token, l.issuer, l.holder, l.raised_at, l.confirmed, l.continued, l.adoption, l.candidate, l.rolled_back, l.basis
      into token, issuer, holder, raised_at, confirmed, continued, adoption, candidate, rolled_back, v_basis
      from ringfence.look(p_resource) l;
    if issuer <> p_issuer and issuer <> '' then
        step := 'issuer';
    elsif rolled_back then
        step := 'rolled back';
    elsif v_basis <> p_basis then
        step := 'changed';
    elsif token > p_token or token = p_token and candidate <> '' and p_candidate not in ('', candidate) then
        perform ringfence.distrust(p_resource);
        step := 'rolled back'; rolled_back := true;
    else
        perform ringfence.confirm_registry(p_resource);
        step := case when ringfence.write_mark(v_there, p_resource, p_token, p_issuer, case when token < p_token then p_holder else holder end,
            case when token < p_token then clock_timestamp() else raised_at end, adoption,
            case when token = p_token and p_candidate = '' then candidate else p_candidate end) then 'raised' else 'changed' end;
    end if;
end $$;

-- distrust writes down that the coordinator of a mark was rolled back. The caller holds the mark locked.
-- Transactions are kept out, too. A row that is a copy stays one.
create or replace function ringfence.distrust(p_resource text) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_mark boolean := (select m.written = m.xmin from ringfence_private.mark m where m.resource = p_resource);
    v_gate boolean := (select g.written = g.xmin from ringfence_private.gate g where g.resource = p_resource);
begin
    update ringfence_private.mark m set rolled_back = true where m.resource = p_resource;
    update ringfence_private.mark m set written = m.xmin where m.resource = p_resource and v_mark;
    update ringfence_private.gate g set rolled_back = true where g.resource = p_resource;
    update ringfence_private.gate g set written = g.xmin where g.resource = p_resource and v_gate;
end $$;

-- durable makes the transaction commit with synchronous_commit on, whatever the defaults are.
create or replace function ringfence.durable() returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
begin
    if current_setting('synchronous_commit') not in ('on', 'remote_apply') then
        perform set_config('synchronous_commit', 'on', true);
    end if;
end $$;

-- write_mark writes a mark for this run and closes the gate, unless both are already so. p_there
-- means that the caller holds the row locked. Where the caller found no row, a mark that has been
-- written since must not be overwritten, because it may be a newer leader's: then write_mark writes
-- nothing and returns false.
create or replace function ringfence.write_mark(
    p_there boolean, p_resource text, p_token bigint, p_issuer text, p_holder text, p_raised timestamptz, p_adoption text,
    p_candidate text) returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_run text := ringfence.begin_run();
    v_server text := ringfence.server(); -- begin_run may change it
begin
    if p_there then
        update ringfence_private.mark m
           set token = p_token, issuer = p_issuer, holder = p_holder, raised_at = p_raised, server = v_server, run = v_run,
               adoption = p_adoption, candidate = p_candidate, rolled_back = false
         where m.resource = p_resource
           and ((m.token, m.issuer, m.run, m.adoption, m.candidate) is distinct from (p_token, p_issuer, v_run, p_adoption, p_candidate)
                or m.written is distinct from m.xmin);
    else
        insert into ringfence_private.mark (resource, token, issuer, holder, raised_at, server, run, adoption, candidate)
        values (p_resource, p_token, p_issuer, p_holder, p_raised, v_server, v_run, p_adoption, p_candidate) on conflict do nothing;
        if not found then
            return false;
        end if;
    end if;
    update ringfence_private.mark m set written = m.xmin where m.resource = p_resource and m.written is distinct from m.xmin;
    perform ringfence.shut(p_resource, p_token, p_issuer, v_run, p_candidate);
    return true;
end $$;

-- number returns a new number of a raise, not negative, for the advisory locks of those that enter
-- under it.
create or replace function ringfence.number() returns integer
language sql volatile set search_path = pg_catalog, pg_temp as $$
    select hashtext(gen_random_uuid()::text) & 2147483647
$$;

-- shut points the gate at this mark and closes it, unless it already is this mark's. The caller
-- holds the mark locked. A row that does not change must not be locked either (ON CONFLICT DO
-- UPDATE would lock it), because enter mistakes a lock for a replacement.
create or replace function ringfence.shut(p_resource text, p_token bigint, p_issuer text, p_run text, p_candidate text) returns void
language sql volatile security definer set search_path = pg_catalog, pg_temp as $$
    insert into ringfence_private.gate (resource, token, issuer, run, open, number)
    values (p_resource, p_token, p_issuer, '', false, ringfence.number()) on conflict do nothing;
    update ringfence_private.gate g
       set token = p_token, issuer = p_issuer, run = p_run, candidate = p_candidate, rolled_back = false, open = false,
           number = ringfence.number(), older = g.older || g.number
     where g.resource = p_resource
       and ((g.token, g.issuer, g.run, g.candidate, g.rolled_back) is distinct from (p_token, p_issuer, p_run, p_candidate, false)
            or g.written is distinct from g.xmin);
    update ringfence_private.gate g set written = g.xmin where g.resource = p_resource and g.written is distinct from g.xmin
$$;

-- confirm_registry makes the registry one of this instance. On a new start of the server nobody has been
-- admitted yet, so the registry is complete and empty. If it was restored, or its table is new, or
-- a row of the resource was copied, it counts as lost: then revoke first lists every session.
create or replace function ringfence.confirm_registry(p_resource text) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    i record;
    v_copied boolean := exists (select from ringfence_private.mark m where m.resource = p_resource and m.written is distinct from m.xmin)
                     or exists (select from ringfence_private.gate g where g.resource = p_resource and g.written is distinct from g.xmin);
begin
    if ringfence.complete() and not v_copied then
        return;
    end if;
    perform from ringfence_private.installation for no key update;
    select n.*, n.written = n.xmin as original into i from ringfence_private.installation n;
    if i.original and not v_copied and i.registry is not null and i.registry not like ringfence.instance() || '/%' then
        delete from ringfence_private.session;
        update ringfence_private.installation set registry = ringfence.registry();
    elsif not i.original or v_copied or i.registry is distinct from ringfence.registry() then
        update ringfence_private.installation set registry = null, server = case when i.original then i.server else '' end;
    end if;
    update ringfence_private.installation n set written = n.xmin where n.written is distinct from n.xmin;
end $$;

-- lose_registry and record complete a registry that counts as lost, by listing every session that
-- may have been in it. lose_registry locks it and returns whether it is lost; record lists the
-- sessions and completes it, in the same transaction.
create or replace function ringfence.lose_registry() returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform from ringfence_private.installation for no key update;
    return not ringfence.complete();
end $$;

create or replace function ringfence.record(p_pids integer[], p_backend_starts timestamptz[]) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    insert into ringfence_private.session (resource, token, issuer, pid, backend_start)
    select '*', 0, '', s.pid, s.backend_start from unnest(p_pids, p_backend_starts) as s(pid, backend_start) on conflict do nothing;
    update ringfence_private.installation set registry = ringfence.registry();
    update ringfence_private.installation n set written = n.xmin;
end $$;

-- is_mark returns whether this is the mark, confirmed, with its gate.
create or replace function ringfence.is_mark(p_resource text, p_token bigint, p_issuer text) returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    return exists (
        select from ringfence_private.mark m join ringfence_private.gate g on g.resource = m.resource
         where m.resource = p_resource and m.token = p_token and m.issuer = p_issuer and m.run = ringfence.run() and m.written = m.xmin
           and not m.rolled_back and (g.token, g.issuer, g.run) = (m.token, m.issuer, m.run) and g.written = g.xmin);
end $$;

-- others lists the sessions of a resource that are not under its mark, and those of an unknown
-- resource. It lists nothing unless the mark is the given one.
create or replace function ringfence.others(p_resource text, p_token bigint, p_issuer text)
returns table (pid integer, backend_start timestamptz)
language sql volatile security definer set search_path = pg_catalog, pg_temp as $$
    select s.pid, s.backend_start
      from ringfence_private.mark m join ringfence_private.session s on s.resource in (m.resource, '*')
     where m.resource = p_resource and m.token = p_token and m.issuer = p_issuer
       and (s.token <> m.token or s.issuer <> m.issuer)
$$;

-- older lists the sessions of a resource that a raise to this token would leave to end, before the
-- raise, and the backends that are leaving. It lists nothing below a mark that is higher or another
-- issuer's. It only reads: sessions may have used up what a write needs.
create or replace function ringfence.older(p_resource text, p_token bigint, p_issuer text)
returns table (pid integer, backend_start timestamptz)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    select s.pid, s.backend_start
      from ringfence_private.mark m join ringfence_private.session s on s.resource = m.resource
     where m.resource = p_resource and m.issuer = p_issuer and m.token <= p_token
       and s.issuer = p_issuer and s.token < p_token
    union all
    select l.pid, l.backend_start from ringfence_private.leaving l
$$;

-- forget removes the records of processes that the caller has seen to be gone: of one resource, or
-- of all when it is null.
create or replace function ringfence.forget(p_resource text, p_pids integer[], p_backend_starts timestamptz[]) returns void
language sql volatile security definer set search_path = pg_catalog, pg_temp as $$
    select set_config('synchronous_commit', 'off', true);
    delete from ringfence_private.session s using unnest(p_pids, p_backend_starts) as gone(pid, backend_start)
     where s.pid = gone.pid and s.backend_start = gone.backend_start and (p_resource is null or s.resource in (p_resource, '*'));
    delete from ringfence_private.leaving l using unnest(p_pids, p_backend_starts) as gone(pid, backend_start)
     where l.pid = gone.pid and l.backend_start = gone.backend_start
$$;

-- may_see returns whether the caller can see the start time of every role's backend. Without that,
-- live backends look gone. A member of pg_monitor has pg_read_all_stats, too.
create or replace function ringfence.may_see() returns boolean
language sql stable set search_path = pg_catalog, pg_temp as $$
    select pg_has_role(current_user, 'pg_read_all_stats', 'usage')
$$;

-- check_sight fails a call that has to see other roles' sessions and cannot.
create or replace function ringfence.check_sight() returns void
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
    if not ringfence.may_see() then
        raise insufficient_privilege using
            message = format('role %I cannot see whether older sessions live', current_user),
            detail = 'nothing was changed',
            hint = format('ask whoever may for one of: GRANT pg_read_all_stats TO %1$I; GRANT pg_monitor TO %1$I', current_user);
    end if;
end $$;

-- open opens the gate of the mark, if the mark still is this one, and this is the number of its last
-- raise: transactions may enter and sessions be admitted. The caller has seen that nobody from before
-- that raise is left. Of a raise to the same token since then it has seen nothing. It locks
-- the mark so that two calls do not meet at the gate's row: the second would leave a lock there,
-- which enter mistakes for a replacement.
create or replace function ringfence.open(p_resource text, p_token bigint, p_issuer text, p_number integer) returns void
language sql volatile security definer set search_path = pg_catalog, pg_temp as $$
    select from ringfence_private.mark m where m.resource = p_resource for no key update;
    update ringfence_private.gate g set open = true, older = '{}'
     where g.resource = p_resource and g.token = p_token and g.issuer = p_issuer and g.number = p_number
       and g.run = ringfence.run() and g.written = g.xmin and not g.open;
    update ringfence_private.gate g set written = g.xmin
     where g.resource = p_resource and g.token = p_token and g.issuer = p_issuer and g.number = p_number and g.open and g.written <> g.xmin
$$;

-- list_everybody completes a registry that counts as lost. It records every session that could be
-- ended as one of an unknown resource, so that the next revocation of any resource ends it. A
-- session that starts later is admitted only by the new registry. The same holds for the newcomer,
-- whose guard has sent nothing of its client. Sessions of superusers are left out unless the caller
-- is one: they are never admitted.
create or replace function ringfence.list_everybody(p_newcomer integer) returns void
language plpgsql volatile security invoker set search_path = pg_catalog, pg_temp as $$
declare
    v_pids integer[];
    v_starts timestamptz[];
begin
    if not ringfence.lose_registry() then
        return;
    end if;
    perform pg_stat_clear_snapshot();
    select coalesce(array_agg(a.pid), '{}'), coalesce(array_agg(a.backend_start), '{}') into v_pids, v_starts
      from pg_stat_activity a join pg_roles o on o.oid = a.usesysid
     where a.datname = current_database() and a.backend_type in ('client backend', 'walsender') and a.pid not in (pg_backend_pid(), p_newcomer)
       and (not o.rolsuper or (select u.rolsuper from pg_roles u where u.rolname = current_user));
    perform ringfence.record(v_pids, v_starts);
end $$;

-- revoke looks for sessions that are not under the mark and for transactions that entered before
-- its raise. It removes the records of those that are gone, returns who is left, and signals these
-- to end if there are at most p_signal_at_most. Call it again until nobody remains: pg_stat_activity
-- is frozen within a transaction, so one call cannot wait. The call that finds nobody opens the gate.
-- blocked has the roles of sessions that the caller may not end, prepared the names of prepared
-- transactions, which end only by name. described has those who remain, as text for people.
create or replace function ringfence.revoke(
    p_resource text, p_token bigint, p_issuer text, p_signal_at_most integer, p_newcomer integer,
    out current boolean, out gone integer, out remaining integer[], out blocked text[], out prepared text[], out described text[])
language plpgsql volatile security invoker set search_path = pg_catalog, pg_temp as $$
declare
    v_listed_pids integer[];
    v_listed_starts timestamptz[];
    v_pids integer[];
    v_starts timestamptz[];
    v_inside integer[];
    v_number integer;
begin
    perform ringfence.check_isolation();
    -- A crash loses nothing that this writes and that still counts: it ends every session, and a
    -- gate counts on one run of the server.
    perform set_config('synchronous_commit', 'off', true);
    blocked := '{}';
    -- Check the mark before listing who is inside: others could enter while the mark is another
    -- one.
    current := ringfence.is_mark(p_resource, p_token, p_issuer);
    if current and not ringfence.complete() then
        perform ringfence.check_sight();
        perform ringfence.list_everybody(p_newcomer);
    end if;
    -- Transactions first, sessions second: one that attaches is inside until the record of its
    -- session is visible.
    select i.pids, i.gids, i.number into v_inside, prepared, v_number from ringfence.inside(p_resource) i;
    -- List first, check second: a listed session was alive before, so one that is missing now is
    -- gone.
    select array_agg(o.pid), array_agg(o.backend_start) into v_listed_pids, v_listed_starts
      from ringfence.others(p_resource, p_token, p_issuer) o;
    if v_listed_pids is not null then
        perform ringfence.check_sight();
    end if;
    -- Check the mark again after the list of sessions. The list is empty when the mark is another
    -- one, and that must not mean that nobody is left.
    current := current and ringfence.is_mark(p_resource, p_token, p_issuer);
    if not current then
        v_inside := '{}'; prepared := '{}'; -- they may be under a newer mark
    end if;
    perform pg_stat_clear_snapshot();
    with alive as materialized (
        select * from pg_stat_get_activity(null)
    ), older as materialized (
        select o.pid, o.backend_start, a.pid is not null as lives, a.usesysid, a.application_name, a.client_addr, a.state
          from unnest(v_listed_pids, v_listed_starts) as o(pid, backend_start)
          left join alive a on a.pid = o.pid and a.backend_start = o.backend_start
        union -- backends inside: they leave that list when they end
        select i.pid, a.backend_start, true, a.usesysid, a.application_name, a.client_addr, a.state
          from unnest(v_inside) as i(pid) left join alive a on a.pid = i.pid
    )
    select coalesce(array_agg(o.pid) filter (where not o.lives), '{}'), array_agg(o.backend_start) filter (where not o.lives),
           coalesce(array_agg(o.pid) filter (where o.lives), '{}'),
           array(select format('pid %s of role %s%s%s%s', x.pid, coalesce(pg_get_userbyid(x.usesysid)::text, 'unknown'),
                               coalesce(' (' || nullif(x.application_name, '') || ')', ''), coalesce(' from ' || host(x.client_addr), ''),
                               coalesce(', ' || x.state, ''))
                   from older x where x.lives limit 5)
      into v_pids, v_starts, remaining, described
      from older o;
    if cardinality(remaining) between 1 and p_signal_at_most then
        begin
            perform pg_terminate_backend(r.pid) from unnest(remaining) as r(pid) where r.pid <> 0;
        exception when insufficient_privilege then
            blocked := ringfence.signal(remaining);
        end;
    end if;
    gone := cardinality(v_pids);
    if gone > 0 then
        perform ringfence.forget(p_resource, v_pids, v_starts);
    end if;
    if current and cardinality(remaining) = 0 and cardinality(prepared) = 0 and ringfence.complete() then
        perform ringfence.open(p_resource, p_token, p_issuer, v_number);
    end if;
end $$;

-- signal tells backends to end, one by one, and returns the roles of those that the caller may not
-- end.
create or replace function ringfence.signal(p_pids integer[]) returns text[]
language plpgsql volatile security invoker set search_path = pg_catalog, pg_temp as $$
declare
    v_pid integer;
    blocked text[] := '{}';
begin
    foreach v_pid in array coalesce(p_pids, '{}') loop
        continue when v_pid = 0;
        begin
            perform pg_terminate_backend(v_pid);
        exception when insufficient_privilege then
            blocked := blocked || coalesce((select a.usename::text from pg_stat_activity a where a.pid = v_pid), 'a background process');
        end;
    end loop;
    return blocked;
end $$;

-- rests returns whether a backend of this state and last query has run a statement of its guard and
-- waits since. The statement has a random name, and the guard has sent it after it had stopped passing
-- on what the client sends. So nothing of the client is left to be read.
create or replace function ringfence.rests(p_state text, p_query text, p_proof text) returns boolean
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select coalesce(p_proof <> '' and p_query = p_proof and p_state in ('idle', 'idle in transaction', 'idle in transaction (aborted)'), false)
$$;

-- release removes the records of those of these sessions that are gone, and lets those go that rest:
-- their records are closed, and their backends are leaving. It returns the places of those that are
-- leaving and still live, and ends them if they are overdue.
create or replace function ringfence.release(p_pids integer[], p_backend_starts timestamptz[], p_proofs text[], p_overdue boolean[])
returns bigint[]
language plpgsql volatile security invoker set search_path = pg_catalog, pg_temp as $$
declare
    v_gone integer[];
    v_gone_starts timestamptz[];
    v_rest integer[];
    v_rest_starts timestamptz[];
    v_leaving bigint[];
    v_overdue integer[];
begin
    if not ringfence.may_see() then
        return '{}';
    end if;
    perform pg_stat_clear_snapshot();
    select array_agg(s.pid) filter (where a.pid is null), array_agg(s.backend_start) filter (where a.pid is null),
           array_agg(s.pid) filter (where ringfence.rests(a.state, a.query, s.proof)),
           array_agg(s.backend_start) filter (where ringfence.rests(a.state, a.query, s.proof))
      into v_gone, v_gone_starts, v_rest, v_rest_starts
      from unnest(p_pids, p_backend_starts, p_proofs) as s(pid, backend_start, proof)
      left join pg_stat_get_activity(null) a on a.pid = s.pid and a.backend_start = s.backend_start;
    if v_gone is not null then
        perform ringfence.forget(null::text, v_gone, v_gone_starts);
    end if;
    if v_rest is not null then
        perform ringfence.let_go(v_rest, v_rest_starts);
    end if;
    select array_agg(s.place), array_agg(s.pid) filter (where s.overdue) into v_leaving, v_overdue
      from unnest(p_pids, p_backend_starts, p_overdue) with ordinality as s(pid, backend_start, overdue, place)
      join ringfence.leaving() l on l.pid = s.pid and l.backend_start = s.backend_start;
    perform ringfence.signal(v_overdue);
    return coalesce(v_leaving, '{}');
end $$;

-- let_go closes the records of sessions that rest, and keeps their backends on the list of those that
-- are leaving, in one transaction. So each backend is always on one of the two lists.
create or replace function ringfence.let_go(p_pids integer[], p_backend_starts timestamptz[]) returns void
language sql volatile security definer set search_path = pg_catalog, pg_temp as $$
    select ringfence.forget(null::text, p_pids, p_backend_starts);
    insert into ringfence_private.leaving (pid, backend_start)
    select s.pid, s.backend_start from unnest(p_pids, p_backend_starts) as s(pid, backend_start) on conflict do nothing
$$;

create or replace function ringfence.leaving() returns table (pid integer, backend_start timestamptz)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    select l.pid, l.backend_start from ringfence_private.leaving l
$$;

-- leave releases the backends that are leaving, whoever has let them go, and all of them are overdue.
-- Call it after a newcomer was admitted: it need not wait for them, and their ends keep the server busy.
create or replace function ringfence.leave() returns void
language plpgsql volatile security invoker set search_path = pg_catalog, pg_temp as $$
declare
    v_pids integer[];
    v_starts timestamptz[];
begin
    select array_agg(l.pid), array_agg(l.backend_start) into v_pids, v_starts from ringfence.leaving() l;
    if v_pids is not null then
        perform ringfence.release(v_pids, v_starts, '{}'::text[], array_fill(true, array[cardinality(v_pids)]));
    end if;
end $$;

create or replace function ringfence.sessions() returns table (resource text, pid integer, backend_start timestamptz)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    select s.resource, s.pid, s.backend_start from ringfence_private.session s
$$;

create or replace function ringfence.sweep() returns void
language plpgsql volatile security invoker set search_path = pg_catalog, pg_temp as $$
declare
    v_pids integer[];
    v_starts timestamptz[];
begin
    perform ringfence.check_isolation();
    -- List first, check second, as in revoke: a session that registers in between must not look
    -- gone.
    select array_agg(s.pid), array_agg(s.backend_start) into v_pids, v_starts from ringfence.sessions() s;
    perform ringfence.release(v_pids, v_starts, '{}'::text[], '{}'::boolean[]);
    perform ringfence.leave();
end $$;

-- marks reads the marks of these resources; of all when the list is null.
create or replace function ringfence.marks(p_resources text[])
returns table (resource text, token bigint, issuer text, holder text, raised_at timestamptz, confirmed boolean, continued boolean,
               adoption text, candidate text, rolled_back boolean, sessions bigint)
language sql volatile security definer set search_path = pg_catalog, pg_temp as $$
    select m.resource, m.token, m.issuer, m.holder, m.raised_at,
           coalesce(m.run = here.run and m.written = m.xmin, false), coalesce(m.server = here.server and m.written = m.xmin, false), m.adoption,
           m.candidate, m.rolled_back, coalesce(recorded.sessions, 0)
      from (select ringfence.run() as run, ringfence.server() as server) here, ringfence_private.mark m
      left join (select s.resource, count(*) as sessions from ringfence_private.session s where p_resources is null group by s.resource) recorded
        on recorded.resource = m.resource
     where p_resources is null or m.resource = any (p_resources)
     order by m.resource
$$;

-- adopt starts a new issuer's count and records who did it. The caller then revokes the sessions of
-- the old count. A new value of the mark's adoption makes guards forget what they remember of the
-- mark.
create or replace function ringfence.adopt(
    p_resource text, p_token bigint, p_issuer text, p_holder text, p_by text,
    out token bigint, out issuer text, out holder text, out raised_at timestamptz, out confirmed boolean, out continued boolean, out adoption text)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_there boolean;
begin
    perform ringfence.check_isolation();
    perform ringfence.durable();
    perform ringfence.begin_run();
    perform from ringfence_private.mark m where m.resource = p_resource for update;
    v_there := found;
    select l.token, l.issuer, l.holder, l.raised_at, l.confirmed, l.continued, l.adoption
      into token, issuer, holder, raised_at, confirmed, continued, adoption from ringfence.look(p_resource) l;
    insert into ringfence_private.adoption (by_holder, resource, old_issuer, old_token, new_issuer, new_token)
    values (p_by, p_resource, nullif(issuer, ''), case when issuer <> '' then token end, p_issuer, p_token);
    perform ringfence.confirm_registry(p_resource);
    if not ringfence.write_mark(v_there, p_resource, p_token, p_issuer, p_holder, clock_timestamp(), gen_random_uuid()::text, ''::text) then
        raise serialization_failure using message = format('the mark of %s was raised for the first time just now', p_resource),
            hint = 'adopt it again';
    end if;
end $$;

-- holds returns whether the caller's own session was admitted under this token. A leader learns
-- from it that there is a guard in between.
create or replace function ringfence.holds(p_resource text, p_token bigint) returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    return ringfence.registered(p_resource, p_token, null::text);
end $$;

-- registered returns whether the caller's own session is recorded under this token, and under this
-- issuer unless that is null.
create or replace function ringfence.registered(p_resource text, p_token bigint, p_issuer text) returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    return exists (select from ringfence_private.session s
                    where s.resource = p_resource and s.pid = pg_backend_pid() and s.token = p_token and s.issuer = coalesce(p_issuer, s.issuer)
                      and s.backend_start = (select a.backend_start from pg_stat_get_activity(pg_backend_pid()) a));
end $$;
