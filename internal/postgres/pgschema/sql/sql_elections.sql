-- Elections for programs that call SQL functions: ringfence.campaign and ringfence.take. Their callers
-- raise the mark in the same transaction, and whoever leads here leads until that has committed.

-- enlist stands for elections as one holder, with one session, and renews that. p_session is the same
-- in each call of a holder; two calls at once wait for each other. Once a call has committed, each of the
-- resources has a candidate of the session, and a row that says where it is: whether it leads, and until
-- when; otherwise who leads. These candidates keep their rows until the transaction ends.
create or replace function ringfence.enlist(p_session text, p_holder text, p_resources text[], p_ttl bigint)
returns table (resource text, token bigint, id text, leads boolean, leader text, until timestamptz)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_era text := ringfence.begin_call(p_resources);
    v_lease text;
    v_own bigint;
begin
    insert into ringfence_private.holder (key) values (p_session) on conflict do nothing;
    select h.lease into v_lease from ringfence_private.holder h where h.key = p_session for no key update;
    perform ringfence.expel(p_resources, v_era);
    update ringfence_private.lease s set ttl = p_ttl, expires_at = clock_timestamp() + p_ttl * interval '1 millisecond'
     where s.id = v_lease and s.era = v_era and not s.over and s.expires_at > clock_timestamp();
    if not found then -- a new one: who expels the old one has locked its row
        v_lease := p_session || ' ' || gen_random_uuid();
        insert into ringfence_private.lease (id, ttl, expires_at, era)
        values (v_lease, p_ttl, clock_timestamp() + p_ttl * interval '1 millisecond', v_era);
        update ringfence_private.holder h set lease = v_lease where h.key = p_session;
    end if;
    loop -- again if somebody has taken one at the same time
        perform ringfence.enrol_all(v_lease, p_holder, array(
            select distinct r.resource from unnest(p_resources) as r(resource)
             where not exists (select from ringfence_private.candidate c where c.lease = v_lease and c.resource = r.resource)));
        perform from ringfence_private.candidate c
          where c.lease = v_lease and c.resource = any (p_resources) for key share;
        get diagnostics v_own = row_count;
        exit when v_own >= (select count(distinct r.resource) from unnest(p_resources) as r(resource));
    end loop;
    return query
    select o.resource, o.token, o.id, f.token = o.token, f.holder, case when not f.taken then f.expires_at end
      from ringfence_private.candidate o
     cross join lateral (
           select c.token, c.holder, s.expires_at, c.lease = ringfence.lease_of_takes(c.resource) as taken
             from ringfence_private.candidate c join ringfence_private.lease s on s.id = c.lease
            where c.resource = o.resource order by c.token limit 1) f
     where o.lease = v_lease and o.resource = any (p_resources);
end $$;

-- enrol_all enters a candidate into each of these elections, as enrol does into one. The caller has locked
-- the session, and it has no candidate there.
create or replace function ringfence.enrol_all(p_session text, p_holder text, p_resources text[]) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    c_notices constant integer := 100; -- who enters more elections at once tells nobody: it costs only time
    v_issuer text := ringfence.issuer();
begin
    if p_resources = '{}' then
        return;
    end if;
    if cardinality(p_resources) > c_notices then
        perform ringfence.without_notices();
    end if;
    insert into ringfence_private.election (resource)
    select r.resource from unnest(p_resources) as r(resource) order by r.resource collate "C" on conflict do nothing;
    perform from ringfence_private.election e where e.resource = any (p_resources) order by e.resource collate "C" for no key update;
    insert into ringfence_private.candidate (resource, token, id, lease, holder)
    select e.resource, ringfence.next_token(case when e.issuer = v_issuer then e.last else 0 end), gen_random_uuid()::text, p_session, p_holder
      from ringfence_private.election e where e.resource = any (p_resources);
    update ringfence_private.election x set last = c.token, issuer = v_issuer
      from ringfence_private.candidate c
     where x.resource = any (p_resources) and c.resource = x.resource and c.lease = p_session;
end $$;

-- seize makes a holder the leader of a resource at once, and deposes everybody else. A call that is
-- repeated with the same holder and attempt finds its candidate. outcome is 'taken', or 'late' for an
-- attempt that is below the highest one so far, or that somebody else has; then holder and attempt are
-- those of the one that has it. Without an attempt the call deposes whoever leads. The candidate lasts until the next take, depose or leave, on this timeline.
create or replace function ringfence.seize(
    p_resource text, p_holder text, p_attempt bigint,
    out outcome text, out token bigint, out id text, out holder text, out attempt bigint)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    c_ttl constant bigint := 10 * 365 * 86400000::bigint; -- it is renewed by nobody
    v_session text := ringfence.lease_of_takes(p_resource);
    v_era text := ringfence.begin_call(array[p_resource]);
    v_crowd boolean;
begin
    insert into ringfence_private.election (resource) values (p_resource) on conflict do nothing;
    perform from ringfence_private.election e where e.resource = p_resource for no key update;

    insert into ringfence_private.lease (id, ttl, expires_at, era)
    values (v_session, c_ttl, clock_timestamp() + c_ttl * interval '1 millisecond', v_era) on conflict do nothing;
    if not found then
        delete from ringfence_private.candidate c using ringfence_private.lease s
         where c.resource = p_resource and c.lease = v_session and s.id = v_session and (s.over or s.era <> v_era);
        update ringfence_private.lease s set expires_at = clock_timestamp() + c_ttl * interval '1 millisecond', era = v_era, over = false
         where s.id = v_session;
    end if;
    select e.holder, e.attempt into holder, attempt from ringfence_private.election e where e.resource = p_resource;
    if p_attempt < attempt or p_attempt = attempt and p_holder is distinct from holder then
        outcome := 'late';
        return;
    end if;
    outcome := 'taken';
    select c.token, c.id into token, id
      from ringfence_private.candidate c
     where c.resource = p_resource and c.lease = v_session and c.holder = p_holder
       and (p_attempt is null or p_attempt = attempt) for key share;
    if found then
        return;
    end if;
    v_crowd := exists (select from ringfence_private.candidate c where c.resource = p_resource and c.lease <> v_session);
    if not v_crowd then
        perform ringfence.without_notices();
    end if;
    delete from ringfence_private.candidate c where c.resource = p_resource;
    id := gen_random_uuid()::text;
    token := ringfence.enrol(v_session, id, p_resource, p_holder);
    update ringfence_private.election e set holder = p_holder, attempt = coalesce(p_attempt, e.attempt) where e.resource = p_resource;
    holder := p_holder;
    attempt := p_attempt;
end $$;

-- remove deletes the candidate with this token and id, whoever holds it, and returns whether it was there. If it had
-- taken the resource, its attempt never wins again.
create or replace function ringfence.remove(p_resource text, p_token bigint, p_id text) returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_lease text;
begin
    perform from ringfence_private.election e where e.resource = p_resource for no key update; -- nobody takes it meanwhile
    delete from ringfence_private.candidate c
     where c.resource = p_resource and c.token = p_token and p_id in ('', c.id) returning c.lease into v_lease;
    if v_lease = ringfence.lease_of_takes(p_resource) then
        update ringfence_private.election e set holder = null where e.resource = p_resource;
    end if;
    return v_lease is not null;
end $$;

-- lease_of_takes names the lease of whoever takes a resource. It has a blank, so it is no client's.
create or replace function ringfence.lease_of_takes(p_resource text) returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select 'take ' || p_resource
$$;
