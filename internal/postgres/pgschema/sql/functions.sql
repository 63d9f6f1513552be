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
    v_server text := ringfence.server();
    v_vouched boolean;
    v_role oid;
begin
    perform ringfence.check_isolation();
    basis := ''; older := 0; token := 0; issuer := ''; holder := ''; confirmed := false; continued := false;
    adoption := ''; candidate := ''; rolled_back := false;
    if p_run is distinct from ringfence.run() then
        step := 'elsewhere'; resource := '';
        return;
    end if;
    if ringfence_private.authorizing() then
        v_role := ringfence.role_of(p_pid);
        resource := ringfence.forbidden(v_role, p_resources);
        if resource is not null then
            step := 'forbidden';
            basis := coalesce((select o.rolname from pg_roles o where o.oid = v_role), '');
            return;
        end if;
    end if;
    perform ringfence.check_complete();
    perform ringfence.begin_work(p_resources);
    perform set_config('synchronous_commit', 'off', true); -- a session that a crash forgets is a session that it ended
    perform 1 from ringfence_private.mark m where m.resource = any (p_resources) order by m.resource for no key update;
    select i.server = v_server into v_vouched from ringfence_private.installation i;

    select w.step, w.resource, coalesce(w.token, 0), coalesce(w.issuer, ''), coalesce(w.holder, ''), w.raised_at, w.confirmed, w.continued,
           coalesce(w.adoption, ''), coalesce(w.candidate, ''), coalesce(w.rolled_back, false)
      into step, resource, token, issuer, holder, raised_at, confirmed, continued, adoption, candidate, rolled_back
      from (
        select case
                 when m.issuer <> p_issuer or m.rolled_back then 'issuer'
                 when m.token > wanted.token then 'stale'
                 when m.token = wanted.token and wanted.candidate in ('', m.candidate) and m.written = m.xmin and gate.pass = m.pass then
                   case when gate.open or ringfence.nobody_left(m.resource, m.token, m.issuer) then 'admitted' else 'revoke' end
                 else 'raise'
               end as step,
               wanted.place, wanted.resource, m.token, m.issuer, m.holder, m.raised_at, m.adoption, m.candidate, m.rolled_back,
               case when m.resource is null then v_vouched and gate.resource is null else coalesce(gate.pass = m.pass and m.written = m.xmin, false) end as confirmed,
               case when m.resource is null then v_vouched and gate.resource is null else coalesce(m.server = v_server and m.written = m.xmin, false) end as continued
          from unnest(p_resources, p_tokens, p_candidates) with ordinality as wanted(resource, token, candidate, place)
          left join ringfence_private.mark m on m.resource = wanted.resource
          left join ringfence_private.standing gate on gate.resource = wanted.resource
      ) w
     order by array_position(array['issuer', 'stale', 'raise', 'revoke', 'admitted'], w.step), w.place
     limit 1;

    if step = 'admitted' then
        insert into ringfence_private.session (resource, token, issuer, pid, backend_start)
        select wanted.resource, wanted.token, p_issuer, p_pid, p_backend_start
          from unnest(p_resources, p_tokens) as wanted(resource, token)
            on conflict do nothing;
        perform ringfence.open(g.resource, g.pass) from ringfence_private.standing g where g.resource = any (p_resources) and not g.open;
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
    resource text,
    out token bigint, out issuer text, out holder text, out raised_at timestamptz, out confirmed boolean, out continued boolean,
    out adoption text, out candidate text, out rolled_back boolean, out basis text)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_server text := ringfence.server();
    m record;
    i record;
begin
    perform ringfence.check_complete();
    -- In one statement: a gate that a raise writes after a look at the marks would seem to have lost its mark.
    select k.*, k.xmin as row_xmin, k.written = k.xmin as original,
           exists (select from ringfence_private.standing g where g.resource = k.resource and g.pass = k.pass) as stands,
           exists (select from ringfence_private.gate g where g.resource = look.resource) as gated
      into m from (select look.resource as name) w left join ringfence_private.mark k on k.resource = w.name;
    select n.server, n.xmin as row_xmin into i from ringfence_private.installation n;
    token := coalesce(m.token, 0); issuer := coalesce(m.issuer, ''); holder := coalesce(m.holder, ''); raised_at := m.raised_at;
    adoption := coalesce(m.adoption, ''); candidate := coalesce(m.candidate, ''); rolled_back := coalesce(m.rolled_back, false);
    if m.resource is null then
        continued := i.server = v_server and not m.gated;
        confirmed := continued;
    else
        continued := coalesce(m.server = v_server and m.original, false);
        confirmed := coalesce(m.stands and m.original, false);
    end if;
    basis := concat_ws(' ', ringfence.run(), 'ringfence_private.mark'::regclass::oid, i.row_xmin, coalesce(m.row_xmin::text, '-'));
end $$;

-- raise raises a mark, never lowers it, and confirms it for this server, if nothing that it depends on
-- has changed since look returned p_basis. So a delayed raise does not count on a server that was
-- restarted, or for a mark that was rolled back. It is durable when the statement returns, whatever
-- the defaults of the role or the database are.
-- Where the elections are in this database, they say whether the claim leads: the caller may have asked a server that is
-- no longer the primary. Otherwise the caller has asked its coordinator, after look. So a claim that is below the mark, or has
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
    perform ringfence.begin_work(array[p_resource]);
    if p_issuer = ringfence.issuer() and ringfence.leads(p_resource, p_token, p_candidate) <> 'leads' then
        raise exception using errcode = 'RF007', schema = 'ringfence', table = p_resource, column = p_token::text,
            message = format('token %s of "%s" does not lead', p_token, p_resource),
            detail = 'the elections of this database have another leader; nothing was changed',
            hint = 'this process no longer leads: stop, or campaign for a new token';
    end if;
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
    v_original boolean := (select m.written = m.xmin from ringfence_private.mark m where m.resource = p_resource);
begin
    update ringfence_private.mark m set rolled_back = true where m.resource = p_resource;
    update ringfence_private.mark m set written = m.xmin where m.resource = p_resource and v_original;
    delete from ringfence_private.gate g where g.resource = p_resource;
end $$;

-- durable makes the transaction commit with synchronous_commit on, whatever the defaults are.
create or replace function ringfence.durable() returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
begin
    if current_setting('synchronous_commit') not in ('on', 'remote_apply') then
        perform set_config('synchronous_commit', 'on', true);
    end if;
end $$;

-- write_mark writes a mark, with a new pass, and closes the gate, unless the mark is this one and stands. p_there
-- means that the caller holds the row locked. Where the caller found no row, a mark that has been
-- written since must not be overwritten, because it may be a newer leader's: then write_mark writes
-- nothing and returns false. Of a mark that is a copy, or was lost while its gate is there, the passes before are not
-- known: then everybody who is inside in this database has to end first.
create or replace function ringfence.write_mark(
    p_there boolean, p_resource text, p_token bigint, p_issuer text, p_holder text, p_raised timestamptz, p_adoption text,
    p_candidate text) returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_pass text := ringfence.new_pass(p_resource, p_token, p_issuer, p_candidate);
    v_server text := ringfence.server();
begin
    if p_there then
        update ringfence_private.mark m
           set token = p_token, issuer = p_issuer, holder = p_holder, raised_at = p_raised, server = v_server,
               adoption = p_adoption, candidate = p_candidate, rolled_back = false, pass = v_pass,
               older = case when m.written = m.xmin and m.older is not null then m.older || ringfence.number(m.pass) end, inside = null
         where m.resource = p_resource
           and ((m.token, m.issuer, m.adoption, m.candidate) is distinct from (p_token, p_issuer, p_adoption, p_candidate)
                or m.written is distinct from m.xmin
                or not exists (select from ringfence_private.standing g where g.resource = m.resource and g.pass = m.pass));
        if not found then
            return true;
        end if;
    else
        insert into ringfence_private.mark (resource, token, issuer, holder, raised_at, server, adoption, candidate, pass, older)
        values (p_resource, p_token, p_issuer, p_holder, p_raised, v_server, p_adoption, p_candidate, v_pass,
                case when not exists (select from ringfence_private.gate g where g.resource = p_resource) then '{}'::integer[] end)
            on conflict do nothing;
        if not found then
            return false;
        end if;
    end if;
    update ringfence_private.mark m set written = m.xmin where m.resource = p_resource;
    delete from ringfence_private.gate g where g.resource = p_resource;
    perform ringfence.make_gates(array[p_resource], false);
    return true;
end $$;

-- make_gates makes the gates of marks that have none.
create or replace function ringfence.make_gates(p_resources text[], p_open boolean) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    insert into ringfence_private.gate (resource, token, issuer, candidate, pass, open)
    select m.resource, m.token, m.issuer, m.candidate, m.pass, p_open from ringfence_private.mark m where m.resource = any (p_resources);
    update ringfence_private.gate g set written = g.xmin where g.resource = any (p_resources);
end $$;

-- is_mark returns whether this is the mark, confirmed, with its gate.
create or replace function ringfence.is_mark(p_resource text, p_token bigint, p_issuer text) returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    return exists (
        select from ringfence_private.mark m join ringfence_private.standing g on g.resource = m.resource and g.pass = m.pass
         where m.resource = p_resource and m.token = p_token and m.issuer = p_issuer and m.written = m.xmin and not m.rolled_back);
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

-- open opens the gate of the mark, if this is the pass of its last raise: transactions may enter and sessions be
-- admitted. The caller has seen that nobody from before that raise is left. Of a later raise it has seen nothing. It locks
-- the mark so that two calls do not meet at the gate's row: the second would leave a lock there,
-- which enter mistakes for a replacement.
create or replace function ringfence.open(p_resource text, p_pass text) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform from ringfence_private.mark m where m.resource = p_resource for no key update;
    if exists (select from ringfence_private.mark m join ringfence_private.standing g on g.resource = m.resource and g.pass = m.pass
                where m.resource = p_resource and m.pass = p_pass and m.written = m.xmin and not g.open) then
        update ringfence_private.gate g set open = true where g.resource = p_resource;
        update ringfence_private.gate g set written = g.xmin where g.resource = p_resource;
        update ringfence_private.mark m set older = '{}', inside = null where m.resource = p_resource;
        update ringfence_private.mark m set written = m.xmin where m.resource = p_resource;
    end if;
end $$;

-- revoke looks for sessions that are not under the mark and for transactions that entered before
-- its raise. It removes the records of those that are gone, returns who is left, and signals these
-- to end if there are at most p_signal_at_most. Call it again until nobody remains: pg_stat_activity
-- is frozen within a transaction, so one call cannot wait. The call that finds nobody opens the gate.
-- blocked has the roles of sessions that the caller may not end, prepared the names of prepared
-- transactions, which end only by name. described has those who remain, as text for people.
create or replace function ringfence.revoke(
    p_resource text, p_token bigint, p_issuer text, p_signal_at_most integer,
    out current boolean, out gone integer, out remaining integer[], out blocked text[], out prepared text[], out described text[])
language plpgsql volatile security invoker set search_path = pg_catalog, pg_temp as $$
declare
    v_listed_pids integer[];
    v_listed_starts timestamptz[];
    v_pids integer[];
    v_starts timestamptz[];
    v_inside integer[];
    v_pass text;
begin
    perform ringfence.check_isolation();
    perform ringfence.begin_work(array[p_resource]);
    -- A crash loses nothing that this writes and that still counts: it ends every session, and a
    -- gate counts on one run of the server.
    perform set_config('synchronous_commit', 'off', true);
    blocked := '{}';
    -- Check the mark before listing who is inside: others could enter while the mark is another
    -- one.
    current := ringfence.is_mark(p_resource, p_token, p_issuer);
    -- Transactions first, sessions second: one that attaches is inside until the record of its
    -- session is visible.
    select i.pids, i.gids, i.pass into v_inside, prepared, v_pass from ringfence.inside(p_resource) i;
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
    if current and cardinality(remaining) = 0 and cardinality(prepared) = 0 then
        perform ringfence.open(p_resource, v_pass);
    end if;
end $$;

-- signal tells backends to end, one by one, and returns the roles of those that the caller may not
-- end.
create or replace function ringfence.signal(pids integer[]) returns text[]
language plpgsql volatile security invoker set search_path = pg_catalog, pg_temp as $$
declare
    v_pid integer;
    blocked text[] := '{}';
begin
    foreach v_pid in array coalesce(pids, '{}') loop
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

-- end_leaving releases the backends that are leaving, whoever has let them go, and all of them are overdue.
-- Call it after a newcomer was admitted: it need not wait for them, and their ends keep the server busy.
create or replace function ringfence.end_leaving() returns void
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

-- sessions lists the recorded sessions. attached: the session has attached itself.
create or replace function ringfence.sessions()
returns table (resource text, pid integer, backend_start timestamptz, token bigint, attached boolean)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform ringfence.check_primary();
    return query select s.resource, s.pid, s.backend_start, s.token, s.attachment is not null from ringfence_private.session s;
end $$;

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
    perform ringfence.end_leaving();
end $$;

-- marks reads the marks of these resources; of all when the list is null. open: the gate is, so transactions may enter.
create or replace function ringfence.marks(resources text[])
returns table (resource text, token bigint, issuer text, holder text, raised_at timestamptz, confirmed boolean, continued boolean,
               adoption text, candidate text, rolled_back boolean, sessions bigint, open boolean)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform ringfence.check_primary();
    return query
    select m.resource::text, m.token, m.issuer, m.holder, m.raised_at,
           coalesce(g.pass = m.pass and m.written = m.xmin, false), coalesce(m.server = here.server and m.written = m.xmin, false), m.adoption,
           m.candidate, m.rolled_back, coalesce(recorded.sessions, 0), coalesce(g.open and g.pass = m.pass and m.written = m.xmin, false)
      from (select ringfence.server() as server) here cross join ringfence_private.mark m
      left join ringfence_private.standing g on g.resource = m.resource
      left join (select s.resource, count(*) as sessions from ringfence_private.session s where marks.resources is null group by s.resource) recorded
        on recorded.resource = m.resource
     where marks.resources is null or m.resource = any (marks.resources)
     order by m.resource;
end $$;

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
    perform ringfence.begin_work(array[p_resource]);
    perform from ringfence_private.mark m where m.resource = p_resource for update;
    v_there := found;
    select l.token, l.issuer, l.holder, l.raised_at, l.confirmed, l.continued, l.adoption
      into token, issuer, holder, raised_at, confirmed, continued, adoption from ringfence.look(p_resource) l;
    insert into ringfence_private.adoption (by_holder, resource, old_issuer, old_token, new_issuer, new_token)
    values (p_by, p_resource, nullif(issuer, ''), case when issuer <> '' then token end, p_issuer, p_token);
    if not ringfence.write_mark(v_there, p_resource, p_token, p_issuer, p_holder, clock_timestamp(), gen_random_uuid()::text, ''::text) then
        raise serialization_failure using message = format('the mark of %s was raised for the first time just now', p_resource),
            hint = 'adopt it again';
    end if;
end $$;

-- holds returns whether the caller's own session was admitted under this token. A leader learns
-- from it that there is a guard in between.
create or replace function ringfence.holds(resource text, token bigint) returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    return ringfence.registered(resource, token, null::text);
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
