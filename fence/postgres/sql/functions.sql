-- The functions. Every install replaces them. All of them are called in a transaction of their own,
-- at READ COMMITTED, so each statement sees what was committed before it began, also after it has
-- waited for a lock.
--
-- Locks are taken in this order: installation (expire), session, election, candidate.

create or replace function ringfence_elections.version() returns integer
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    select version from ringfence_elections.installation
$$;

-- prefix begins every issuer: which cluster and which database of it this is.
create or replace function ringfence_elections.prefix() returns text
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    return 'postgres:' || (pg_control_system()).system_identifier || ':'
        || (select d.oid from pg_database d where d.datname = current_database()) || ':';
end $$;

-- timeline returns the timeline of the server. It rises with each promotion; pg_walfile_name has the new
-- one at once.
create or replace function ringfence_elections.timeline() returns bigint
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    return ('x' || substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8))::bit(32)::bigint;
end $$;

-- Some managed services refuse the functions of the WAL, or hide the control file. There timeline is a
-- number that rises when an unlogged table has lost its row: with a promotion, and with a crash, too. And
-- the prefix of issuers has no system identifier. The random id behind it is another one in each
-- installation.
do $do$
begin
    perform ringfence_elections.timeline();
exception when others then
    create or replace function ringfence_elections.timeline() returns bigint
    language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
    begin
        if not exists (select from ringfence_elections.boot b where b.written = b.xmin) then
            perform from ringfence_elections.installation for update;
            if not exists (select from ringfence_elections.boot b where b.written = b.xmin) then
                insert into ringfence_elections.number as n (number) values (1) on conflict (only_row) do update set number = n.number + 1;
                delete from ringfence_elections.boot;
                insert into ringfence_elections.boot default values;
                update ringfence_elections.boot set written = xmin;
            end if;
        end if;
        return (select n.number from ringfence_elections.number n);
    end $$;
end $do$;
do $do$
begin
    perform ringfence_elections.prefix();
exception when others then
    create or replace function ringfence_elections.prefix() returns text
    language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
    begin
        return 'postgres:hidden:' || (select d.oid from pg_database d where d.datname = current_database()) || ':';
    end $$;
end $do$;

-- begin_call begins every other function, and returns the timeline of the server. What the caller's transaction
-- writes is durable when it is answered, whatever the defaults of the role or the database are.
create or replace function ringfence_elections.begin_call() returns bigint
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_timeline bigint;
begin
    if pg_is_in_recovery() then
        raise exception 'this server is a standby' using errcode = 'RFE01';
    end if;
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception 'elections need READ COMMITTED, this transaction is %', current_setting('transaction_isolation')
            using errcode = 'RFE02', hint = 'ALTER ROLE ... SET default_transaction_isolation = ''read committed''';
    end if;
    if current_setting('session_replication_role') = 'replica' then -- foreign keys would delete nothing
        raise exception 'elections need the triggers of their tables, and session_replication_role is replica'
            using errcode = 'RFE02', hint = 'ALTER ROLE ... RESET session_replication_role';
    end if;
    perform ringfence_elections.durable();
    if not ringfence_elections.is_own() then
        perform ringfence_elections.make_issuer();
    end if;
    v_timeline := ringfence_elections.timeline();
    if v_timeline > 2147483647 then
        raise exception 'timeline % does not fit into a token', v_timeline using errcode = 'RFE03';
    end if;
    return v_timeline;
end $$;

-- durable makes the commit wait for the disk at least.
create or replace function ringfence_elections.durable() returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
begin
    if current_setting('synchronous_commit') in ('off', 'local', 'remote_write') then
        perform set_config('synchronous_commit', 'on', true);
    end if;
end $$;

-- is_own returns whether there is an identity, of this cluster and database, and none that was restored.
create or replace function ringfence_elections.is_own() returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_prefix text := ringfence_elections.prefix();
begin
    return exists (select from ringfence_elections.issuer i where i.written = i.xmin and v_prefix = coalesce(i.prefix, v_prefix));
end $$;

-- make_issuer makes another identity after an installation, after a dump was restored here, and after
-- pg_upgrade. Then nobody's session counts either, and nobody's token: numbers of two issuers are not
-- compared, and those here may begin below the last ones, on a lower timeline.
create or replace function ringfence_elections.make_issuer() returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform from ringfence_elections.installation for update;
    if ringfence_elections.is_own() then
        return;
    end if;
    delete from ringfence_elections.session;
    update ringfence_elections.election e set last = 0 where e.last <> 0;
    delete from ringfence_elections.issuer;
    insert into ringfence_elections.issuer (id, prefix) values (gen_random_uuid()::text, ringfence_elections.prefix());
    update ringfence_elections.issuer set written = xmin;
end $$;

-- renew_issuer replaces the identity, if it is still the one that the caller knows. So a call that
-- arrives twice, or late, replaces no newer one.
create or replace function ringfence_elections.renew_issuer(p_before text) returns text
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_prefix text := ringfence_elections.prefix();
begin
    perform ringfence_elections.begin_call();
    perform from ringfence_elections.installation for update;
    update ringfence_elections.issuer i set id = gen_random_uuid()::text, prefix = v_prefix, written = null where v_prefix || i.id = p_before;
    update ringfence_elections.issuer i set written = i.xmin where i.written is null;
    return (select v_prefix || i.id from ringfence_elections.issuer i);
end $$;

-- expire deletes those of these sessions that are over. It waits for a heartbeat that renews one,
-- and then looks at the renewed row. A session that would last for longer than its time to live was
-- renewed before the clock stepped back; it gets what a renewal now would give it.
create or replace function ringfence_elections.expire(p_sessions text[], p_timeline bigint) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform from ringfence_elections.installation for update;
    delete from ringfence_elections.session s
     where s.id = any (p_sessions) and (s.timeline <> p_timeline or s.expires_at <= clock_timestamp());
    update ringfence_elections.session s set expires_at = clock_timestamp() + s.ttl * interval '1 millisecond'
     where s.id = any (p_sessions) and ringfence_elections.too_long(s);
end $$;

-- too_long returns whether a session expires later than a renewal now would make it.
create or replace function ringfence_elections.too_long(s ringfence_elections.session) returns boolean
language sql volatile set search_path = pg_catalog, pg_temp as $$
    select s.expires_at > clock_timestamp() + s.ttl * interval '1 millisecond'
$$;

-- front deletes sessions that are over from the first two places of elections. A place that a
-- deletion frees is looked at as well.
create or replace function ringfence_elections.front(p_resources text[], p_timeline bigint) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_over text[];
begin
    loop
        select array_agg(distinct s.id) into v_over
          from unnest(p_resources) as r(resource)
         cross join lateral (
               select c.session from ringfence_elections.candidate c where c.resource = r.resource order by c.token limit 2) f
          join ringfence_elections.session s on s.id = f.session
         where s.timeline <> p_timeline or s.expires_at <= clock_timestamp() or ringfence_elections.too_long(s);
        exit when v_over is null;
        perform ringfence_elections.expire(v_over, p_timeline);
    end loop;
end $$;

-- open opens a session, and removes some that nobody else had a reason to look at.
create or replace function ringfence_elections.open(p_session text, p_ttl bigint) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_timeline bigint := ringfence_elections.begin_call();
begin
    perform ringfence_elections.expire(v.ids, v_timeline)
       from (select array_agg(o.id) as ids from (
              select s.id from ringfence_elections.session s
               where s.timeline <> v_timeline or s.expires_at <= clock_timestamp() limit 100) o) v
      where v.ids is not null;
    insert into ringfence_elections.session (id, ttl, expires_at, timeline)
    values (p_session, p_ttl, clock_timestamp() + p_ttl * interval '1 millisecond', v_timeline);
end $$;

-- close ends a session and its candidates.
create or replace function ringfence_elections.close(p_session text) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform ringfence_elections.begin_call();
    delete from ringfence_elections.session s where s.id = p_session;
end $$;

-- enrol enters a candidate into an election, once: a call that is repeated finds the row. It
-- returns 0 if the session is over. It holds the election's row locked until it has committed, so
-- tokens become visible in their order.
create or replace function ringfence_elections.enrol(
    p_session text, p_id text, p_resource text, p_holder text, out token bigint)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_timeline bigint := ringfence_elections.begin_call();
    v_last bigint;
begin
    token := 0;
    perform from ringfence_elections.session s
      where s.id = p_session and s.timeline = v_timeline and s.expires_at > clock_timestamp() for key share;
    if not found then
        perform ringfence_elections.expire(array[p_session], v_timeline);
        return;
    end if;
    insert into ringfence_elections.election (resource) values (p_resource) on conflict do nothing;
    select e.last into v_last from ringfence_elections.election e where e.resource = p_resource for no key update;
    select c.token into token from ringfence_elections.candidate c where c.id = p_id;
    if found then
        return;
    end if;
    token := (v_timeline << 32) | nextval('ringfence_elections.counter');
    if token <= v_last then
        perform ringfence_elections.refuse_counter(p_resource, v_last, token);
    end if;
    update ringfence_elections.election e set last = token where e.resource = p_resource;
    insert into ringfence_elections.candidate (resource, token, id, session, holder)
    values (p_resource, token, p_id, p_session, p_holder);
end $$;

-- refuse_counter fails for a counter that has gone back without another issuer, as by hand.
create or replace function ringfence_elections.refuse_counter(p_resource text, p_last bigint, p_token bigint) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    raise exception using errcode = 'RFE03',
        message = format('the counter of elections has gone back: %s has had token %s and would get %s', p_resource, p_last, p_token),
        hint = 'an operator stops all leaders, drops the schema ringfence_elections and runs guard install: a new one is another issuer';
end $$;

-- stand enrols as enrol does, and says whether the candidate leads at once. The client sends the notices
-- afterwards (tell).
create or replace function ringfence_elections.stand(
    p_session text, p_id text, p_resource text, p_holder text, out token bigint, out leads boolean, out issuer text)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_token bigint;
begin
    perform ringfence_elections.quiet();
    v_token := ringfence_elections.enrol(p_session, p_id, p_resource, p_holder);
    token := v_token;
    -- An election's tokens are committed in their order, so nobody comes before this candidate any more.
    select v_token > 0 and not exists (select from ringfence_elections.candidate c
                                        where c.resource = p_resource and c.token < v_token),
           ringfence_elections.prefix() || i.id
      into leads, issuer from ringfence_elections.issuer i;
end $$;

-- quiet lets the triggers send no notices in this transaction. A transaction that has sent one holds a
-- lock of the whole server until it is on disk, so such transactions commit one after the other.
create or replace function ringfence_elections.quiet() returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
begin
    perform set_config('ringfence_elections.quiet', 'on', true);
end $$;

-- tell sends notices about what is committed already: these, and one to the candidate that now leads each
-- election. It waits for no disk: a notice that is lost costs only time.
create or replace function ringfence_elections.tell(p_channels text[], p_payloads text[], p_elections text[])
returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform set_config('synchronous_commit', 'off', true);
    perform pg_notify(n.channel, n.payload) from unnest(p_channels, p_payloads) as n(channel, payload);
    perform pg_notify('ringfence_s_' || n.session, n.id)
       from unnest(p_elections) as r(resource)
      cross join lateral (
            select c.session, c.id
              from ringfence_elections.candidate c join ringfence_elections.session s on s.id = c.session
             where c.resource = r.resource and s.expires_at > clock_timestamp() order by c.token limit 1) n;
end $$;

-- look says where the candidates of a session are: those with these ids, or all. ahead is how many
-- are ahead, at most 2; with 0 ahead a candidate leads. wait is when the session of the leader
-- expires, in seconds from now. alive is whether the session is. All of it was so at one moment.
create or replace function ringfence_elections.look(
    p_session text, p_only text[],
    out alive boolean, out issuer text, out ids text[], out tokens bigint[], out ahead integer[], out wait double precision[])
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_timeline bigint := ringfence_elections.begin_call();
begin
    perform ringfence_elections.front(ringfence_elections.entered(p_session, p_only), v_timeline);
    select p.alive, p.issuer, p.ids, p.tokens, p.ahead, p.wait
      into alive, issuer, ids, tokens, ahead, wait from ringfence_elections.places(p_session, p_only, v_timeline) p;
    if not alive then
        perform ringfence_elections.expire(array[p_session], v_timeline);
    end if;
end $$;

-- beat renews a session that is not over, and then looks.
create or replace function ringfence_elections.beat(
    p_session text,
    out alive boolean, out issuer text, out ids text[], out tokens bigint[], out ahead integer[], out wait double precision[])
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_timeline bigint := ringfence_elections.begin_call();
begin
    -- First, because expire locks the installation.
    perform ringfence_elections.front(ringfence_elections.entered(p_session, null), v_timeline);
    perform ringfence_elections.expire(array[p_session], v_timeline)
       from ringfence_elections.session s
      where s.id = p_session and (s.timeline <> v_timeline or s.expires_at <= clock_timestamp());
    update ringfence_elections.session s set expires_at = clock_timestamp() + s.ttl * interval '1 millisecond'
     where s.id = p_session and s.timeline = v_timeline and s.expires_at > clock_timestamp();
    if not found then
        alive := false; issuer := ''; ids := '{}'; tokens := '{}'; ahead := '{}'; wait := '{}';
        return;
    end if;
    select p.alive, p.issuer, p.ids, p.tokens, p.ahead, p.wait
      into alive, issuer, ids, tokens, ahead, wait from ringfence_elections.places(p_session, null, v_timeline) p;
end $$;

-- entered lists the elections of a session's candidates.
create or replace function ringfence_elections.entered(p_session text, p_only text[]) returns text[]
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    return array(select distinct c.resource from ringfence_elections.candidate c
                  where c.session = p_session and (p_only is null or c.id = any (p_only)));
end $$;

-- places is one statement, and so of one moment. Only front may go before it.
create or replace function ringfence_elections.places(
    p_session text, p_only text[], p_timeline bigint,
    out alive boolean, out issuer text, out ids text[], out tokens bigint[], out ahead integer[], out wait double precision[])
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_prefix text := ringfence_elections.prefix();
begin
    select exists (select from ringfence_elections.session s
                    where s.id = p_session and s.timeline = p_timeline and s.expires_at > clock_timestamp()),
           (select v_prefix || i.id from ringfence_elections.issuer i),
           coalesce(array_agg(c.id), '{}'), coalesce(array_agg(c.token), '{}'),
           coalesce(array_agg(f.ahead), '{}'), coalesce(array_agg(coalesce(f.wait, 0)), '{}')
      into alive, issuer, ids, tokens, ahead, wait
      from ringfence_elections.candidate c
     cross join lateral (
           select count(*)::integer as ahead, (array_agg(extract(epoch from d.expires_at - clock_timestamp())::double precision order by d.token))[1] as wait
             from (select b.token, s.expires_at
                     from ringfence_elections.candidate b join ringfence_elections.session s on s.id = b.session
                    where b.resource = c.resource and b.token < c.token order by b.token limit 2) d) f
     where c.session = p_session and (p_only is null or c.id = any (p_only));
end $$;

-- leaders and candidates return more columns since version 3. They are dropped only for that, because
-- the privileges of roles that this installation does not name go with them.
do $$
declare
    f regprocedure;
begin
    for f in select p.oid from pg_proc p
              where p.oid in (to_regprocedure('ringfence_elections.leaders(text[])'), to_regprocedure('ringfence_elections.candidates(text)'))
                and 'ids' <> all (p.proargnames) loop
        execute format('drop function %s', f);
    end loop;
end $$;

-- leaders returns the issuer and the leader of each resource, token 0 where nobody leads. The last
-- statement reads all of it at one moment.
create or replace function ringfence_elections.leaders(
    p_resources text[], out issuer text, out tokens bigint[], out ids text[], out holders text[])
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_timeline bigint := ringfence_elections.begin_call();
    v_prefix text := ringfence_elections.prefix();
begin
    perform ringfence_elections.front(p_resources, v_timeline);
    select (select v_prefix || i.id from ringfence_elections.issuer i),
           coalesce(array_agg(coalesce(l.token, 0) order by r.place), '{}'),
           coalesce(array_agg(coalesce(l.id, '') order by r.place), '{}'),
           coalesce(array_agg(coalesce(l.holder, '') order by r.place), '{}')
      into issuer, tokens, ids, holders
      from unnest(p_resources) with ordinality as r(resource, place)
      left join lateral (
           select c.token, c.id, c.holder from ringfence_elections.candidate c
            where c.resource = r.resource order by c.token limit 1) l on true;
end $$;

-- candidates lists an election in order of tokens. wait is when the next session of it expires, in
-- seconds from now.
create or replace function ringfence_elections.candidates(
    p_resource text, out tokens bigint[], out ids text[], out holders text[], out ready boolean[], out wait double precision)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_timeline bigint := ringfence_elections.begin_call();
    v_over text[];
begin
    loop
        select array_agg(distinct s.id) into v_over
          from ringfence_elections.candidate c join ringfence_elections.session s on s.id = c.session
         where c.resource = p_resource
           and (s.timeline <> v_timeline or s.expires_at <= clock_timestamp() or ringfence_elections.too_long(s));
        exit when v_over is null;
        perform ringfence_elections.expire(v_over, v_timeline);
    end loop;
    select coalesce(array_agg(c.token order by c.token), '{}'), coalesce(array_agg(c.id order by c.token), '{}'),
           coalesce(array_agg(c.holder order by c.token), '{}'),
           coalesce(array_agg(c.ready order by c.token), '{}'),
           coalesce(extract(epoch from min(s.expires_at) - clock_timestamp()), 0)::double precision
      into tokens, ids, holders, ready, wait
      from ringfence_elections.candidate c join ringfence_elections.session s on s.id = c.session
     where c.resource = p_resource;
end $$;

-- acknowledge publishes that a leader is ready, unless its candidate or its session is gone.
create or replace function ringfence_elections.acknowledge(p_id text, p_token bigint) returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_timeline bigint := ringfence_elections.begin_call();
begin
    update ringfence_elections.candidate c set ready = true
     where c.id = p_id and c.token = p_token
       and exists (select from ringfence_elections.session s
                    where s.id = c.session and s.timeline = v_timeline and s.expires_at > clock_timestamp());
    return found;
end $$;

-- leave deletes candidates of a session.
create or replace function ringfence_elections.leave(p_session text, p_ids text[]) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform ringfence_elections.begin_call();
    delete from ringfence_elections.candidate c where c.session = p_session and c.id = any (p_ids);
end $$;

-- resign deletes a candidate of a session, whose holder has stopped. The client sends the notices
-- afterwards (tell). If nobody else is in the election, it waits for no disk: who enrols next commits
-- later, and waits for both. A crash of the server before that only undoes the resignation; then the
-- session's next beat finds a candidate that nobody knows, and deletes it.
create or replace function ringfence_elections.resign(p_session text, p_id text) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_resource text;
begin
    perform ringfence_elections.begin_call();
    perform ringfence_elections.quiet();
    select c.resource into v_resource from ringfence_elections.candidate c where c.session = p_session and c.id = p_id;
    perform from ringfence_elections.election e where e.resource = v_resource for no key update; -- nobody enrols meanwhile
    delete from ringfence_elections.candidate c where c.session = p_session and c.id = p_id;
    if not exists (select from ringfence_elections.candidate c where c.resource = v_resource) then
        perform set_config('synchronous_commit', 'off', true);
    end if;
end $$;

-- takes_part returns whether an election has a candidate with this token.
create or replace function ringfence_elections.takes_part(p_resource text, p_token bigint) returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform ringfence_elections.begin_call();
    return exists (select from ringfence_elections.candidate c where c.resource = p_resource and c.token = p_token);
end $$;

-- depose deletes the candidate with this token, whoever holds it.
create or replace function ringfence_elections.depose(p_resource text, p_token bigint) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform ringfence_elections.begin_call();
    delete from ringfence_elections.candidate c where c.resource = p_resource and c.token = p_token;
end $$;

-- silent returns whether the triggers send no notices in this transaction: a client sends them later, or
-- the server's queue of notices is half full, because a session that listens has left a transaction open.
-- The commit of a transaction with a notice fails when the queue is full. A notice that is lost costs
-- only time.
create or replace function ringfence_elections.silent() returns boolean
language sql volatile set search_path = pg_catalog, pg_temp as $$
    select current_setting('ringfence_elections.quiet', true) = 'on' or pg_notification_queue_usage() >= 0.5
$$;

-- changed tells the watchers of elections that a leader is ready.
create or replace function ringfence_elections.changed() returns trigger
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    if ringfence_elections.silent() then
        return null;
    end if;
    perform pg_notify('ringfence_e_' || r.resource, '') from (select distinct c.resource from changed c) r;
    return null;
end $$;

-- led tells the watchers of elections about candidates that lead as soon as they are enrolled. A
-- candidate that has to wait sends no notice: it would wake every connection that listens in the
-- database, and a crowd of them would keep the server busy until sessions expired.
create or replace function ringfence_elections.led() returns trigger
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    if ringfence_elections.silent() then
        return null;
    end if;
    perform pg_notify('ringfence_e_' || c.resource, '') from changed c
      where not exists (select from ringfence_elections.candidate b where b.resource = c.resource and b.token < c.token);
    return null;
end $$;

-- removed runs after every deletion of candidates, by a function, with a session, or by hand. It
-- notifies the sessions of the deleted candidates, and of those who wait only the new leader: the
-- first whose session is alive, unless it led before.
create or replace function ringfence_elections.removed() returns trigger
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform ringfence_elections.durable();
    if ringfence_elections.silent() then
        return null;
    end if;
    perform pg_notify('ringfence_e_' || r.resource, '') from (select distinct c.resource from changed c) r;
    perform pg_notify('ringfence_s_' || c.session, c.id) from changed c;
    perform pg_notify('ringfence_s_' || n.session, n.id)
       from (select c.resource, min(c.token) as token from changed c group by c.resource) r
      cross join lateral (
            select c.session, c.id, c.token
              from ringfence_elections.candidate c join ringfence_elections.session s on s.id = c.session
             where c.resource = r.resource and s.expires_at > clock_timestamp() order by c.token limit 1) n
      where n.token > r.token;
    return null;
end $$;

drop trigger if exists entered on ringfence_elections.candidate;
create trigger entered after insert on ringfence_elections.candidate
    referencing new table as changed for each statement execute function ringfence_elections.led();
drop trigger if exists updated on ringfence_elections.candidate;
create trigger updated after update on ringfence_elections.candidate
    referencing new table as changed for each statement execute function ringfence_elections.changed();
drop trigger if exists removed on ringfence_elections.candidate;
create trigger removed after delete on ringfence_elections.candidate
    referencing old table as changed for each statement execute function ringfence_elections.removed();

-- change_documents makes a change of documents as a whole, while each of these terms leads. outcome
-- is 'done', with the new versions, or why claim number place does not lead, with the leader. The
-- change keeps the candidates' rows from being deleted until it has committed, so nobody else is
-- elected before that. It takes the documents in the order of their paths, so two changes cannot
-- wait for each other. If one has another version it fails with RFE04, and nothing has changed. The client
-- sends the notices afterwards (tell).
drop function if exists ringfence_elections.change_documents(
    text[], bigint[], text[], text[], text[], bigint[], integer[], bytea[]);
create or replace function ringfence_elections.change_documents(
    p_resources text[], p_tokens bigint[], p_candidates text[], p_issuers text[],
    p_folders text[], p_names text[], p_versions bigint[], p_kinds integer[], p_data bytea[],
    out outcome text, out place integer, out leader bigint, out holder text, out versions bigint[])
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_timeline bigint := ringfence_elections.begin_call();
    w record;
    v_version bigint;
begin
    versions := array_fill(0::bigint, array[cardinality(p_names)]);
    select r.outcome, r.place, r.leader, r.holder into outcome, place, leader, holder
      from ringfence_elections.who_does_not_lead(p_resources, p_tokens, p_candidates, p_issuers, v_timeline) r;
    if outcome is not null then
        return;
    end if;
    for w in select * from unnest(p_folders, p_names, p_versions, p_kinds, p_data) with ordinality
                 as u(folder, name, version, kind, data, place) order by u.folder collate "C", u.name collate "C" loop
        v_version := ringfence_elections.write_document(w.folder, w.name, w.version, w.kind, w.data);
        if v_version is null then
            raise exception 'the document %/% has another version', w.folder, w.name using errcode = 'RFE04';
        end if;
        versions[w.place] := v_version;
    end loop;
    outcome := 'done';
end $$;

-- who_does_not_lead returns the place of the first of these claims that does not lead, why, and who leads
-- instead. outcome is null if all lead. Their rows stay then until the transaction ends.
create or replace function ringfence_elections.who_does_not_lead(
    p_resources text[], p_tokens bigint[], p_candidates text[], p_issuers text[], p_timeline bigint,
    out outcome text, out place integer, out leader bigint, out holder text)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_issuer text := ringfence_elections.prefix() || (select i.id from ringfence_elections.issuer i);
begin
    if cardinality(p_resources) > 0 then
        perform ringfence_elections.front(p_resources, p_timeline);
    end if;
    for v_place in 1 .. cardinality(p_resources) loop
        outcome := ringfence_elections.leads(p_resources[v_place], p_tokens[v_place], p_candidates[v_place]);
        if p_issuers[v_place] is distinct from v_issuer then
            outcome := 'other issuer';
        end if;
        if outcome <> 'leads' then
            place := v_place;
            select c.token, c.holder into leader, holder from ringfence_elections.candidate c
             where c.resource = p_resources[place] order by c.token limit 1;
            return;
        end if;
    end loop;
    outcome := null;
    place := 0;
end $$;

-- leads returns 'leads', 'waits' for a later candidate, 'unknown' for a token that was not counted
-- yet, or 'gone'. If it leads, its row stays until the transaction ends. p_candidate is the id of the
-- candidate, or empty where nobody knows it: after a restore another one may have its token.
drop function if exists ringfence_elections.leads(text, bigint);
create or replace function ringfence_elections.leads(p_resource text, p_token bigint, p_candidate text) returns text
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform from ringfence_elections.candidate c
      where c.resource = p_resource and c.token = p_token and p_candidate in ('', c.id) for key share;
    if found then
        return case when exists (select from ringfence_elections.candidate c
                                  where c.resource = p_resource and c.token < p_token) then 'waits' else 'leads' end;
    end if;
    return case when p_token > coalesce((select e.last from ringfence_elections.election e where e.resource = p_resource), 0)
           then 'unknown' else 'gone' end;
end $$;

-- write_document puts (kind 1), deletes (2) or keeps (3) a document that has this version, 0 if there
-- must be none, -1 for any. It returns the new version, 0 if there is none, or null if it had another.
create or replace function ringfence_elections.write_document(
    p_folder text, p_name text, p_version bigint, p_kind integer, p_data bytea) returns bigint
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_version bigint;
begin
    if p_kind = 1 and p_version = 0 then
        insert into ringfence_elections.document (folder, name, data) values (p_folder, p_name, p_data)
            on conflict do nothing returning version into v_version;
    elsif p_kind = 1 then
        update ringfence_elections.document d
           set data = p_data, version = nextval('ringfence_elections.document_version')
         where d.folder = p_folder and d.name = p_name and d.version = p_version returning d.version into v_version;
    elsif p_kind = 2 then
        delete from ringfence_elections.document d
         where d.folder = p_folder and d.name = p_name and p_version in (d.version, -1) returning 0 into v_version;
    else
        select 0 into v_version from ringfence_elections.document d
         where d.folder = p_folder and d.name = p_name and d.version = p_version for share;
    end if;
    return v_version;
end $$;

-- read_documents returns the documents of these names that exist, while each of these terms leads. Every
-- change of an earlier leader was committed before that, because it keeps its candidate's row. If claim
-- number place does not lead, there is one row with the outcome and the leader.
drop function if exists ringfence_elections.read_documents(text[], text[]);
create or replace function ringfence_elections.read_documents(
    p_resources text[], p_tokens bigint[], p_candidates text[], p_issuers text[], p_folders text[], p_names text[])
returns table (outcome text, place bigint, leader bigint, holder text, version bigint, data bytea)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_refused record;
begin
    select * into v_refused from ringfence_elections.who_does_not_lead(
        p_resources, p_tokens, p_candidates, p_issuers, ringfence_elections.begin_call());
    if v_refused.outcome is not null then
        return query select v_refused.outcome, v_refused.place::bigint, v_refused.leader, v_refused.holder,
                            null::bigint, null::bytea;
        return;
    end if;
    return query select 'done', u.place, null::bigint, null::text, d.version, d.data
       from unnest(p_folders, p_names) with ordinality as u(folder, name, place)
       join ringfence_elections.document d on d.folder = u.folder and d.name = u.name;
end $$;

-- list_documents returns the names in a folder, sorted.
create or replace function ringfence_elections.list_documents(p_folder text) returns text[]
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform ringfence_elections.begin_call();
    return array(select d.name from ringfence_elections.document d where d.folder = p_folder order by d.name);
end $$;

-- Anybody may listen to a channel or notify one. A notice proves nothing: it only makes a client
-- look.
revoke all on schema ringfence_elections from public;
revoke all on all tables in schema ringfence_elections from public;
revoke all on all functions in schema ringfence_elections from public;

-- A function that was dropped above, or is new, belongs to the role that installs, such as an operator's.
-- All are to belong to the owner of the schema, as the tables do.
do $$
declare
    f record;
begin
    for f in select p.oid::regprocedure as name, n.nspowner::regrole as owner
               from pg_proc p join pg_namespace n on n.oid = p.pronamespace
              where n.nspname = 'ringfence_elections' and p.proowner <> n.nspowner loop
        execute format('alter function %s owner to %s', f.name, f.owner);
    end loop;
end $$;
