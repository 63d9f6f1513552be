-- The contract for programs in any language: three ways to a token, and one to use it. Elections and
-- marks are in one database here, so who wins raises the mark in the same transaction. See docs/sql.md.
--
-- A token of campaign or take begins in two calls. The first one raises the mark, and has to commit:
-- from then on nobody enters under an older token. A later one finds out who is still inside, ends
-- them, and opens the gate when nobody is left. A program repeats its call until ready is true. Where
-- there was no mark before, nobody can be inside, and the first call opens the gate.
--
-- campaign, take and bring run with the caller's rights, and so end backends that the caller may end.
-- What decides runs with the owner's. All of them take locks that last until the transaction ends, so
-- they belong into a transaction of their own. What they have returned counts once that has committed.
-- A call for the same resource that waits for such a lock ends a transaction that has it for more than five seconds.

-- term is what the three return.
--   pass    what enter takes: resource, token, issuer and candidate in one text; null unless it leads
--   ready   enter lets transactions in
--   ending  transactions and sessions under older tokens that have to end first, as far as is known
--   leader  who leads
--   until   when the leader's lease ends, by the server's clock; null if the leader has taken the resource, and for bring
--   refused why the mark cannot be raised, such as a mark of another coordinator; null if it can
do $$
begin
    if to_regtype('ringfence.term') is null then
        create type ringfence.term as (
            resource text, token bigint, issuer text, pass text, ready boolean, ending integer, leader text, until timestamptz, refused text);
    end if;
    if to_regtype('ringfence.begun') is null then -- remaining: backends that the owner of the functions could not end
        create type ringfence.begun as (state ringfence.term, remaining integer[]);
    end if;
end $$;

-- pass writes a claim as one text. No part of it has a blank.
create or replace function ringfence.pass(p_resource text, p_token bigint, p_issuer text, p_candidate text) returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select p_resource || ' ' || p_token || ' ' || p_issuer || ' ' || p_candidate
$$;

-- new_pass writes the pass of a raise: with a random text, as a raise of the same claim is another one.
create or replace function ringfence.new_pass(p_resource text, p_token bigint, p_issuer text, p_candidate text) returns text
language sql volatile set search_path = pg_catalog, pg_temp as $$
    select ringfence.pass(p_resource, p_token, p_issuer, p_candidate) || ' ' || split_part(gen_random_uuid()::text, '-', 1)
$$;

-- is_pass returns whether these may be the parts of a pass: a claim, or that and the random part of a raise. The second
-- one is a token.
create or replace function ringfence.is_pass(p_part text[]) returns boolean
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
begin
    return coalesce(cardinality(p_part) in (4, 5) and p_part[2] ~ '^[0-9]{1,19}$'
                    and (length(p_part[2]) < 19 or p_part[2] <= '9223372036854775807' collate "C"), false);
end $$;

-- check_primary fails on a standby, where nothing can be written.
create or replace function ringfence.check_primary() returns void
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
    if pg_is_in_recovery() then
        raise exception using errcode = '25006', message = 'this server is a standby', detail = 'nothing was changed',
            hint = 'connect to the primary, as with target_session_attrs=read-write';
    end if;
end $$;

-- ended ends backends with the caller's rights. It returns the term, with what refuses it if the caller has
-- no right to end one of them.
create or replace function ringfence.ended(state ringfence.term, remaining integer[]) returns ringfence.term
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
    v_blocked text[] := array(select distinct b.role from unnest(ringfence.signal(remaining)) as b(role) order by b.role);
begin
    if v_blocked <> '{}' then
        state.refused := format('RF006: neither the owner of the functions nor %s may end sessions of %s, which are under an older token: '
            'GRANT pg_signal_backend, or these roles, to one of them', session_user, array_to_string(v_blocked, ', '));
    end if;
    return state;
end $$;

-- campaign stands for the election of each of these resources, renews the lease of the holder, and says
-- who leads. holder must be a name that no other process has, also none that was started before:
-- a second process with the same holder and role has the same terms. A holder of another role has others,
-- so nobody renews or ends the lease of a resource that its role may not claim.
create or replace function ringfence.campaign(resources text[], holder text, ttl interval default '10 seconds')
returns setof ringfence.term
language plpgsql volatile set search_path = pg_catalog, pg_temp set lock_timeout = '5s' as $$
declare
    v_all ringfence.begun[];
    r ringfence.begun;
begin
    for n in 1 .. ringfence.tries() loop
        begin
            v_all := array(select s from ringfence.stand(resources, holder, ttl) s);
            exit;
        exception when lock_not_available then
            perform ringfence.free_or_fail(resources, n);
        end;
    end loop;
    foreach r in array v_all loop
        return next ringfence.ended(r.state, r.remaining);
    end loop;
end $$;

create or replace function ringfence.campaign(resource text, holder text, ttl interval default '10 seconds')
returns setof ringfence.term
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
begin
    return query select * from ringfence.campaign(array[resource], holder, ttl);
end $$;

-- stand does what campaign does with the owner's rights.
create or replace function ringfence.stand(resources text[], holder text, ttl interval)
returns setof ringfence.begun
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    t ringfence.term;
    b ringfence.begun;
    c_raises constant integer := 1000; -- of one call
    v_raises integer := 0;
    v_ttl bigint := (extract(epoch from ttl) * 1000)::bigint;
    v_issuer text;
    place record; -- what the election says
    e record;
begin
    perform ringfence.check_caller(resources, holder);
    if v_ttl is null or v_ttl not between 1000 and 86400000 then
        raise exception using errcode = '22023', message = 'the time to live is from one second to one day';
    end if;
    select array_agg(c.resource) as resources, array_agg(c.token) as tokens, array_agg(c.id) as ids, array_agg(c.leads) as leads,
           array_agg(c.leader) as leaders, array_agg(c.until) as untils
      into place from ringfence.enlist(
                format('sql %s %s', quote_ident(session_user)::regrole::oid, md5(holder)), holder, resources, v_ttl) c;
    v_issuer := ringfence.issuer();
    perform ringfence.begin_first(array_agg(c.resource), array_agg(c.token), v_issuer, holder, array_agg(c.id))
       from unnest(place.resources, place.tokens, place.ids, place.leads) as c(resource, token, id, leads) where c.leads;
    for e in
        select c.*, case when g.token = c.token and g.issuer = v_issuer and g.candidate = c.id and g.open then g.pass end as pass
          from unnest(place.resources, place.tokens, place.ids, place.leads, place.leaders, place.untils)
               as c(resource, token, id, leads, leader, until)
          left join ringfence_private.standing g on g.resource = c.resource
         order by c.resource collate "C" loop
        t := row(e.resource, e.token, v_issuer, null, e.leads and e.pass is not null, 0, e.leader, e.until, null);
        if e.leads then
            t.pass := coalesce(e.pass, ringfence.pass(e.resource, e.token, v_issuer, e.id));
        end if;
        b := row(t, '{}'::integer[]);
        if e.leads and e.pass is null and v_raises < c_raises then
            v_raises := v_raises + 1;
            b := ringfence.begin_term(t, holder, e.id);
        end if;
        return next b;
    end loop;
end $$;

-- take makes the holder the leader of a resource at once, for who has decided already that the former
-- holder is dead. An attempt below the highest one so far fails with RF001.
create or replace function ringfence.take(resource text, holder text, attempt bigint default null)
returns setof ringfence.term
language plpgsql volatile set search_path = pg_catalog, pg_temp set lock_timeout = '5s' as $$
declare
    b ringfence.begun;
begin
    for n in 1 .. ringfence.tries() loop
        begin
            b := ringfence.take_term(resource, holder, attempt);
            exit;
        exception when lock_not_available then
            perform ringfence.free_or_fail(array[resource], n);
        end;
    end loop;
    return next ringfence.ended(b.state, b.remaining);
end $$;

create or replace function ringfence.take_term(resource text, holder text, attempt bigint) returns ringfence.begun
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    t record;
begin
    perform ringfence.check_caller(array[resource], holder);
    select * into strict t from ringfence.seize(resource, holder, attempt);
    if t.outcome = 'late' then
        raise exception using errcode = 'RF001', schema = 'ringfence', table = resource,
            message = format('attempt %s of "%s" is late: %s', attempt, resource,
                case when t.holder is null then format('attempt %s was given up', t.attempt) else format('"%s" has attempt %s', t.holder, t.attempt) end),
            detail = 'nothing was changed',
            hint = 'this attempt is over: stop';
    end if;
    return ringfence.begin_term(row(resource, t.token, ringfence.issuer(), null, false, 0, holder, null, null)::ringfence.term, holder, t.id);
end $$;

-- bring raises the mark to a token that somebody else has given out, such as a lock library or a
-- coordinator that Ringfence does not ask. Nobody confirms it, and one that is too high locks everybody
-- out, so the caller's role needs a row in the authorization list (guard allow), whether authorization
-- is on or not. A token below the mark fails with RF001, one of another issuer with RF004.
create or replace function ringfence.bring(resource text, token bigint, issuer text, holder text)
returns setof ringfence.term
language plpgsql volatile set search_path = pg_catalog, pg_temp set lock_timeout = '5s' as $$
declare
    b ringfence.begun;
begin
    for n in 1 .. ringfence.tries() loop
        begin
            b := ringfence.bring_term(resource, token, issuer, holder);
            exit;
        exception when lock_not_available then
            perform ringfence.free_or_fail(array[resource], n);
        end;
    end loop;
    return next ringfence.ended(b.state, b.remaining);
end $$;

create or replace function ringfence.bring_term(resource text, token bigint, issuer text, holder text) returns ringfence.begun
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    m record;
begin
    perform ringfence.check_caller(array[resource], holder);
    perform ringfence.check_allowed(resource, token);
    if token is null or token < 1 or coalesce(issuer, '') !~ '^[!-~]{1,200}$' then
        raise exception using errcode = 'RF003', message = 'a token is a number from 1 on, and an issuer a name without blanks';
    end if;
    if issuer = ringfence.issuer() then
        raise exception using errcode = 'RF003', message = 'tokens of this database''s own elections are not brought: call campaign or take';
    end if;
    perform ringfence.begin_work(array[resource]);
    select * into m from ringfence.look(resource);
    if m.issuer <> '' and (m.issuer <> issuer or m.token > token) then
        perform ringfence.refuse(resource, token, issuer, ''::text);
    elsif not m.confirmed and not m.continued then
        raise exception using errcode = 'RF013', schema = 'ringfence', table = resource, column = token::text,
            message = format('the mark of "%s" may be older than the last one that counted', resource),
            detail = 'the database was restored or failed over, and nobody confirms a token that is brought; nothing was changed',
            hint = format('an operator makes sure that the token is the newest, and runs: guard adopt %s', resource);
    end if;
    return ringfence.begin_term(row(resource, token, issuer, null, false, 0, holder, null, null)::ringfence.term, holder, ''::text);
end $$;

-- leave gives up what a pass stands for: the next one may lead. The mark stays. It returns whether there
-- was something to give up.
create or replace function ringfence.leave(pass text) returns boolean
language plpgsql volatile set search_path = pg_catalog, pg_temp set lock_timeout = '5s' as $$
begin
    for n in 1 .. ringfence.tries() loop
        begin
            return ringfence.leave_term(string_to_array(pass, ' '));
        exception when lock_not_available then
            perform ringfence.free_or_fail(array[split_part(pass, ' ', 1)], n);
        end;
    end loop;
end $$;

create or replace function ringfence.leave_term(part text[]) returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    if not ringfence.is_pass(part) then
        raise exception using errcode = 'RF003', message = 'this is not a valid pass: use the one that campaign or take returned', detail = 'nothing was changed';
    end if;
    perform ringfence.check_primary();
    perform ringfence.begin_call(array[part[1]]);
    return ringfence.remove(part[1], part[2]::bigint, part[4]);
end $$;

-- limit_pause has the server end a process that pauses between this call and COMMIT: what it has locked holds
-- up every other call for the resource.
create or replace function ringfence.limit_pause() returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
    c_most constant interval := '5 seconds';
    v_now interval := current_setting('idle_in_transaction_session_timeout');
begin
    if v_now = '0' or v_now > c_most then
        perform set_config('idle_in_transaction_session_timeout', '5s', true);
    end if;
end $$;

-- check_caller fails a call that cannot be right, and one of a role that may not claim one of the resources.
create or replace function ringfence.check_caller(p_resources text[], p_holder text) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_resource text;
begin
    perform ringfence.check_isolation();
    perform ringfence.check_primary();
    perform ringfence.limit_pause();
    if coalesce(p_holder, '') = '' or octet_length(p_holder) > 1024 then
        raise exception using errcode = '22023', message = 'a holder has 1 to 1024 bytes';
    end if;
    foreach v_resource in array coalesce(p_resources, '{}') loop
        if v_resource is null or v_resource !~ '^[a-z][a-z0-9_]{0,47}$' then
            raise exception using errcode = 'RF003',
                message = format('"%s" is no resource: it begins with a letter, and has lower-case letters, digits and _, at most 48', v_resource);
        end if;
    end loop;
    if ringfence_private.authorizing() then
        v_resource := ringfence.forbidden((select o.oid from pg_roles o where o.rolname = session_user), p_resources);
        if v_resource is not null then
            perform ringfence.check_allowed(v_resource, 0::bigint);
        end if;
    end if;
end $$;

-- begin_first raises the first marks of resources, and opens their gates: nobody can be inside. It returns
-- those for which it has. What has a mark, a gate or a session, or will have one when another transaction
-- commits, is left out, and everything is while the registry is lost.
create or replace function ringfence.begin_first(
    p_resources text[], p_tokens bigint[], p_issuer text, p_holder text, p_candidates text[]) returns text[]
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_server text := ringfence.server();
    v_begun text[];
begin
    if not exists (
        select from unnest(p_resources) as r(resource) where not exists (select from ringfence_private.mark m where m.resource = r.resource)
    ) or not ringfence.complete() then
        return '{}';
    end if;
    with begun as (
        insert into ringfence_private.mark (resource, token, issuer, holder, raised_at, server, candidate, pass)
        select r.resource, r.token, p_issuer, p_holder, clock_timestamp(), v_server, r.candidate, ringfence.new_pass(r.resource, r.token, p_issuer, r.candidate)
          from unnest(p_resources, p_tokens, p_candidates) as r(resource, token, candidate)
         where not exists (select from ringfence_private.gate g where g.resource = r.resource)
           and not exists (select from ringfence_private.session s where s.resource in (r.resource, '*'))
         order by r.resource collate "C" on conflict do nothing returning mark.resource
    )
    select coalesce(array_agg(b.resource), '{}') into v_begun from begun b;
    update ringfence_private.mark m set written = m.xmin where m.resource = any (v_begun);
    perform ringfence.make_gates(v_begun, true);
    return v_begun;
end $$;

-- begin_term raises the mark for a claim that leads, or, if a transaction before this one has raised it,
-- ends who is under older tokens, and opens the gate when nobody is left. refused says why it cannot raise; that must be
-- committed, since raise may have noted that a coordinator went back. It is for functions that know that the claim leads
-- until this transaction has committed.
create or replace function ringfence.begin_term(p_state ringfence.term, p_holder text, p_candidate text) returns ringfence.begun
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_resource constant text := p_state.resource;
    v_token constant bigint := p_state.token;
    v_issuer constant text := p_state.issuer;
    v_remaining integer[] := '{}';
    v_before record;
    v_step text := 'changed';
    v_left record;
begin
    perform ringfence.begin_first(array[v_resource], array[v_token], v_issuer, p_holder, array[p_candidate]);
    p_state.ready := ringfence.is_open(v_resource, v_token, v_issuer, p_candidate);
    while v_step = 'changed' and not p_state.ready loop -- again if somebody raises it at the same time
        select * into v_before from ringfence.look(v_resource);
        exit when v_before.token = v_token and v_before.issuer = v_issuer and p_candidate in ('', v_before.candidate) and v_before.confirmed
              and not v_before.rolled_back and ringfence.is_mark(v_resource, v_token, v_issuer);
        v_step := (ringfence.raise(v_resource, v_token, v_issuer, p_holder, p_candidate, v_before.basis)).step;
    end loop;
    if p_state.ready then
        null;
    elsif v_step = 'raised' then
        select cardinality(i.pids) + cardinality(i.gids) into p_state.ending from ringfence.inside(v_resource) i;
    elsif v_step = 'issuer' then
        p_state.refused := format('RF004: the mark of "%s" belongs to issuer %s: guard adopt %s', v_resource, v_before.issuer, v_resource);
    elsif v_step = 'rolled back' then
        p_state.refused := format('RF004: the coordinator went back, it gives out tokens of "%s" a second time: guard adopt --new-issuer %s', v_resource, v_resource);
    elsif ringfence.is_committed((select m.written from ringfence_private.mark m where m.resource = v_resource)) then
        select * into v_left from ringfence.revoke(v_resource, v_token, v_issuer, 2147483647::integer);
        perform ringfence.durable(); -- revoke does without, and this transaction may have raised other marks
        p_state.ending := cardinality(v_left.remaining) + cardinality(v_left.prepared);
        p_state.ready := v_left.current and p_state.ending = 0;
        if cardinality(v_left.blocked) > 0 then
            v_remaining := v_left.remaining;
        end if;
    end if;
    p_state.pass := coalesce((select m.pass from ringfence_private.mark m where m.resource = v_resource and m.token = v_token and m.issuer = v_issuer
                                 and ('' in (p_candidate, m.candidate) or m.candidate = p_candidate)), ringfence.pass(v_resource, v_token, v_issuer, p_candidate));
    return row(p_state, v_remaining);
end $$;

-- is_committed returns whether a transaction has committed. It is false for the caller's own one, and for
-- its subtransactions. Until a raise has committed others enter under the older token, so that nobody is
-- inside proves nothing.
create or replace function ringfence.is_committed(p_xid xid) returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_end bigint := pg_snapshot_xmax(pg_current_snapshot())::text::bigint; -- nothing from here on has ended
    v_age bigint := (v_end % 4294967296 - p_xid::text::bigint + 4294967296) % 4294967296;
begin
    return v_age between 1 and 2147483647 and coalesce(pg_xact_status((v_end - v_age)::text::xid8), 'committed') = 'committed';
end $$;
