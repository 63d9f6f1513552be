-- Elections for programs that call SQL functions: ringfence.campaign and ringfence.take. Their callers
-- raise the mark in the same transaction, and whoever leads here leads until that has committed.

-- campaign stands for elections as one holder, with one session, and renews that. p_session is the same
-- in each call of a holder; two calls at once wait for each other. Once a call has committed, each of the
-- resources has a candidate of the session, and a row that says where it is: whether it leads, and until
-- when; otherwise who leads. These candidates keep their rows until the transaction ends.
create or replace function ringfence_elections.campaign(p_session text, p_holder text, p_resources text[], p_ttl bigint)
returns table (resource text, token bigint, id text, leads boolean, leader text, until timestamptz)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_timeline bigint := ringfence_elections.begin_call();
    v_own bigint;
begin
    -- First, because expire locks the installation.
    perform ringfence_elections.front(p_resources, v_timeline);
    perform ringfence_elections.expire(array[p_session], v_timeline)
       from ringfence_elections.session s
      where s.id = p_session and (s.timeline <> v_timeline or s.expires_at <= clock_timestamp());
    insert into ringfence_elections.session as s (id, ttl, expires_at, timeline)
    values (p_session, p_ttl, clock_timestamp() + p_ttl * interval '1 millisecond', v_timeline)
        on conflict on constraint session_pkey do update
       set ttl = excluded.ttl, expires_at = clock_timestamp() + p_ttl * interval '1 millisecond', timeline = v_timeline;
    loop -- again if somebody has taken one at the same time
        perform ringfence_elections.enrol_all(p_session, p_holder, array(
            select distinct r.resource from unnest(p_resources) as r(resource)
             where not exists (select from ringfence_elections.candidate c where c.session = p_session and c.resource = r.resource)), v_timeline);
        perform from ringfence_elections.candidate c
          where c.session = p_session and c.resource = any (p_resources) for key share;
        get diagnostics v_own = row_count;
        exit when v_own >= (select count(distinct r.resource) from unnest(p_resources) as r(resource));
    end loop;
    return query
    select o.resource, o.token, o.id, f.token = o.token, f.holder, f.expires_at
      from ringfence_elections.candidate o
     cross join lateral (
           select c.token, c.holder, s.expires_at
             from ringfence_elections.candidate c join ringfence_elections.session s on s.id = c.session
            where c.resource = o.resource order by c.token limit 1) f
     where o.session = p_session and o.resource = any (p_resources);
end $$;

-- enrol_all enters a candidate into each of these elections, as enrol does into one. The caller has locked
-- the session, and it has no candidate there.
create or replace function ringfence_elections.enrol_all(p_session text, p_holder text, p_resources text[], p_timeline bigint) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    c_notices constant integer := 100; -- who enters more elections at once tells nobody: it costs only time
    v_back record;
begin
    if p_resources = '{}' then
        return;
    end if;
    if cardinality(p_resources) > c_notices then
        perform ringfence_elections.quiet();
    end if;
    insert into ringfence_elections.election (resource)
    select r.resource from unnest(p_resources) as r(resource) order by r.resource collate "C" on conflict do nothing;
    perform from ringfence_elections.election e where e.resource = any (p_resources) order by e.resource collate "C" for no key update;
    insert into ringfence_elections.candidate (resource, token, id, session, holder)
    select r.resource, (p_timeline << 32) | nextval('ringfence_elections.counter'), gen_random_uuid()::text, p_session, p_holder
      from unnest(p_resources) as r(resource);
    select x.resource, x.last, c.token into v_back
      from ringfence_elections.election x join ringfence_elections.candidate c on c.resource = x.resource
     where x.resource = any (p_resources) and c.session = p_session and c.token <= x.last limit 1;
    if found then
        perform ringfence_elections.refuse_counter(v_back.resource, v_back.last, v_back.token);
    end if;
    update ringfence_elections.election x set last = c.token
      from ringfence_elections.candidate c
     where x.resource = any (p_resources) and c.resource = x.resource and c.session = p_session;
end $$;

-- take makes a holder the leader of a resource at once, and deposes everybody else. A call that is
-- repeated with the same holder and attempt finds its candidate. outcome is 'taken', or 'late' for an
-- attempt that is below the highest one so far, or that somebody else has; then holder and attempt are
-- those of the one that has it. Without an attempt the call deposes whoever leads. The candidate lasts until the next take, depose or leave, on this timeline.
create or replace function ringfence_elections.take(
    p_resource text, p_holder text, p_attempt bigint,
    out outcome text, out token bigint, out id text, out holder text, out attempt bigint)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    c_ttl constant bigint := 10 * 365 * 86400000::bigint; -- it is renewed by nobody
    v_session text := 'take ' || p_resource;
    v_timeline bigint := ringfence_elections.begin_call();
    v_crowd boolean;
begin
    perform ringfence_elections.expire(array[v_session], v_timeline)
       from ringfence_elections.session s where s.id = v_session and s.timeline <> v_timeline;
    insert into ringfence_elections.session as s (id, ttl, expires_at, timeline)
    values (v_session, c_ttl, clock_timestamp() + c_ttl * interval '1 millisecond', v_timeline)
        on conflict on constraint session_pkey do update set expires_at = excluded.expires_at, timeline = v_timeline;
    insert into ringfence_elections.election (resource) values (p_resource) on conflict do nothing;
    perform from ringfence_elections.election e where e.resource = p_resource for no key update;

    select t.holder, t.attempt into holder, attempt from ringfence_elections.taken t where t.resource = p_resource;
    if p_attempt < attempt or p_attempt = attempt and p_holder <> holder then
        outcome := 'late';
        return;
    end if;
    outcome := 'taken';
    select c.token, c.id into token, id
      from ringfence_elections.candidate c
     where c.resource = p_resource and c.session = v_session and c.holder = p_holder
       and (p_attempt is null or p_attempt = attempt) for key share;
    if found then
        return;
    end if;
    v_crowd := exists (select from ringfence_elections.candidate c where c.resource = p_resource and c.session <> v_session);
    if not v_crowd then
        perform ringfence_elections.quiet();
    end if;
    delete from ringfence_elections.candidate c where c.resource = p_resource;
    id := gen_random_uuid()::text;
    token := ringfence_elections.enrol(v_session, id, p_resource, p_holder);
    insert into ringfence_elections.taken as t (resource, holder, attempt) values (p_resource, p_holder, p_attempt)
        on conflict on constraint taken_pkey do update set holder = p_holder, attempt = coalesce(p_attempt, t.attempt);
    holder := p_holder;
    attempt := p_attempt;
end $$;

-- leave gives up the candidate with this token and id, whoever holds it. It returns whether it was there.
create or replace function ringfence_elections.leave(p_resource text, p_token bigint, p_id text) returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform ringfence_elections.begin_call();
    delete from ringfence_elections.candidate c where c.resource = p_resource and c.token = p_token and c.id = p_id;
    return found;
end $$;
