-- The functions. Every install replaces them. All of them are called in a transaction of their own,
-- at READ COMMITTED, so each statement sees what was committed before it began, also after it has
-- waited for a lock.
--
-- No call locks a row that a call for another resource needs,. Somebody's
-- lease that has expired is left alone while its row is locked. Locks are taken in this order: holder, lease, election,
-- counting, candidate.

-- prefix begins every issuer: which cluster and which database of it this is.
create or replace function ringfence.prefix() returns text
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    return 'postgres:' || (pg_control_system()).system_identifier || ':'
        || (select d.oid from pg_database d where d.datname = current_database()) || ':';
end $$;

-- timeline returns the timeline of the server. It rises with each promotion; pg_walfile_name has the new
-- one at once.
create or replace function ringfence.timeline() returns bigint
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    return ('x' || substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8))::bit(32)::bigint;
end $$;

-- replayed returns how late it was for the primary that this server followed, when it stopped; null if there was none.
create or replace function ringfence.replayed() returns timestamptz
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    return pg_last_xact_replay_timestamp();
end $$;

-- Some managed services refuse the functions of the WAL, or hide the control file. There timeline is a
-- number that rises when an unlogged table has lost its row: with a promotion, and with a crash, too. And
-- the prefix of issuers has no system identifier. The random id behind it is another one in each
-- installation. Nothing is known of a primary before.
do $do$
begin
    perform ringfence.replayed();
exception when others then
    create or replace function ringfence.replayed() returns timestamptz
    language sql volatile security definer set search_path = pg_catalog, pg_temp as 'select null::timestamptz';
end $do$;
do $do$
begin
    perform ringfence.timeline();
exception when others then
    create or replace function ringfence.timeline() returns bigint
    language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
    begin
        return ringfence.recovery();
    end $$;
end $do$;
do $do$
begin
    perform ringfence.prefix();
exception when others then
    create or replace function ringfence.prefix() returns text
    language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
    begin
        return 'postgres:hidden:' || (select d.oid from pg_database d where d.datname = current_database()) || ':';
    end $$;
end $do$;

-- issuer names who gives out the numbers. It is another one after a dump was restored here (the row has another xmin
-- then; VACUUM and freezing keep it) and after pg_upgrade (another prefix): numbers of two issuers are not compared.
create or replace function ringfence.issuer() returns text
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    return (select ringfence.prefix() || i.id || ':' || i.xmin from ringfence_private.issuer i);
end $$;

-- begin_call begins every other function, and returns the era: the issuer, and the timeline of the server. What the
-- caller's transaction writes is durable when it is answered, whatever the defaults of the role or the database are. The
-- call is for these resources: see begin_work.
create or replace function ringfence.begin_call(p_resources text[] default '{}') returns text
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
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
    perform ringfence.durable();
    perform ringfence.begin_work(p_resources);
    return ringfence.issuer() || ' ' || ringfence.timeline();
end $$;

-- renew_issuer replaces the identity, if it is still the one that the caller knows. So a call that
-- arrives twice, or late, replaces no newer one.
create or replace function ringfence.renew_issuer(before text) returns text
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform ringfence.begin_call();
    update ringfence_private.issuer set id = gen_random_uuid()::text where ringfence.issuer() = renew_issuer.before;
    return ringfence.issuer();
end $$;

-- expel deletes the candidates of leases that are over from the first places of elections. A place that a deletion
-- frees is looked at as well. It waits for nobody: a lease whose row is locked is being renewed, or expelled by somebody
-- else, and one whose candidate's row is locked is needed by a change that has not committed. Both lead until that ends.
-- A lease that would last for longer than a renewal now would make it gets that: the clock has stepped back.
create or replace function ringfence.expel(p_resources text[], p_era text, p_places integer default 2) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_deleted integer;
begin
    loop
        with first as (
            select f.resource, f.token, f.lease from unnest(p_resources) as r(resource)
             cross join lateral (
                   select c.resource, c.token, c.lease from ringfence_private.candidate c
                    where c.resource = r.resource order by c.token limit p_places) f
        ), over as (
            select c.resource, c.token, c.lease
              from first f join ringfence_private.candidate c on c.resource = f.resource and c.token = f.token
              join ringfence_private.lease s on s.id = c.lease
             where s.over or s.era <> p_era or s.expires_at <= clock_timestamp()
               for update of c skip locked for no key update of s skip locked
        ), noted as (
            update ringfence_private.lease s set over = true where s.id in (select o.lease from over o)
        ), deleted as (
            delete from ringfence_private.candidate c using over o where c.resource = o.resource and c.token = o.token returning 1
        )
        select count(*) into v_deleted from deleted;
        exit when v_deleted = 0;
    end loop;
    with long as (
        select s.id from unnest(p_resources) as r(resource)
         cross join lateral (
               select c.lease from ringfence_private.candidate c where c.resource = r.resource order by c.token limit p_places) f
          join ringfence_private.lease s on s.id = f.lease
         where s.expires_at > clock_timestamp() + s.ttl * interval '1 millisecond' for no key update of s skip locked
    )
    update ringfence_private.lease s set expires_at = clock_timestamp() + s.ttl * interval '1 millisecond'
     where s.id in (select l.id from long l);
end $$;

-- open_lease opens a lease, and removes some that nobody else had a reason to look at. They ended a day ago, so nobody
-- waits for their rows.
create or replace function ringfence.open_lease(session text, ttl bigint) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_era text := ringfence.begin_call();
begin
    delete from ringfence_private.lease s where s.id in (
        select o.id from ringfence_private.lease o
         where o.expires_at < clock_timestamp() - interval '1 day' limit 100 for update skip locked);
    insert into ringfence_private.lease (id, ttl, expires_at, era)
    values (open_lease.session, open_lease.ttl, clock_timestamp() + open_lease.ttl * interval '1 millisecond', v_era);
end $$;

-- close ends a session and its candidates.
create or replace function ringfence.close_lease(session text) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform ringfence.begin_call();
    delete from ringfence_private.lease s where s.id = close_lease.session;
end $$;

-- enrol enters a candidate into an election, once: a call that is repeated finds the row. It
-- returns 0 if the session is over. It holds the election's row locked until it has committed, so
-- tokens become visible in their order.
create or replace function ringfence.enrol(
    p_session text, p_id text, p_resource text, p_holder text, out token bigint)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_era text := ringfence.begin_call(array[p_resource]);
    v_issuer text := ringfence.issuer();
    v_last bigint;
begin
    token := 0;
    perform from ringfence_private.lease s
      where s.id = p_session and s.era = v_era and not s.over and s.expires_at > clock_timestamp() for key share;
    if not found then
        return;
    end if;
    insert into ringfence_private.election (resource) values (p_resource) on conflict do nothing;
    select case when e.issuer = v_issuer then e.last else 0 end into v_last
      from ringfence_private.election e where e.resource = p_resource for no key update;
    select c.token into token from ringfence_private.candidate c where c.id = p_id;
    if found then
        return;
    end if;
    token := ringfence.next_token(v_last);
    update ringfence_private.election e set last = token, issuer = v_issuer where e.resource = p_resource;
    insert into ringfence_private.candidate (resource, token, id, lease, holder)
    values (p_resource, token, p_id, p_session, p_holder);
end $$;

-- next_token returns a token above the last one of an election, whose row the caller has locked: the microseconds since
-- 1970. So tokens rise also if the data go back: to a standby that lacks the last writes, to an older disk, to the timeline
-- before. Other stores know the tokens that were lost. No token is given out twice under one issuer: two servers with one
-- past, standbys that are promoted or copies of one backup, elect at different times. A standby that was promoted knows from
-- the log how late it was for the old primary. Where that is later than now, the old primary may
-- have had 5 s more. A clock that is behind says nothing: the next token is above the last one at
-- random, because another server with this past may have such a clock, too.
create or replace function ringfence.next_token(p_last bigint) returns bigint
language sql volatile security definer set search_path = pg_catalog, pg_temp as $$
    select case when c.now > c.past then c.now
           else c.past + 1
                + floor(random() * least(c.past - c.now + (1 << 10), 1 << 24))::bigint end
      from (select t.now, greatest(p_last, case when t.now <= t.replayed
                                                then t.replayed + 5 * 1000000 end) as past
              from (select (extract(epoch from clock_timestamp()) * 1000000)::bigint as now,
                           (extract(epoch from ringfence.replayed()) * 1000000)::bigint as replayed) as t) as c
$$;

-- stand enrols as enrol does, and says whether the candidate leads at once. The client sends the notices
-- afterwards (tell).
create or replace function ringfence.nominate(
    session text, id text, resource text, holder text, out token bigint, out leads boolean, out issuer text)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_token bigint;
begin
    perform ringfence.without_notices();
    v_token := ringfence.enrol(nominate.session, nominate.id, nominate.resource, nominate.holder);
    token := v_token;
    -- An election's tokens are committed in their order, so nobody comes before this candidate any more.
    select v_token > 0 and not exists (select from ringfence_private.candidate c
                                        where c.resource = nominate.resource and c.token < v_token),
           ringfence.issuer()
      into leads, issuer;
end $$;

-- without_notices lets the triggers send no notices in this transaction. A transaction that has sent one holds a
-- lock of the whole server until it is on disk, so such transactions commit one after the other.
create or replace function ringfence.without_notices() returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
begin
    perform set_config('ringfence._without_notices', 'on', true);
end $$;

-- tell sends notices about what is committed already: these, and one to the candidate that now leads each
-- election. It waits for no disk: a notice that is lost costs only time.
create or replace function ringfence.tell(channels text[], payloads text[], elections text[])
returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform set_config('synchronous_commit', 'off', true);
    perform pg_notify(n.channel, n.payload) from unnest(tell.channels, tell.payloads) as n(channel, payload);
    perform pg_notify('ringfence_s_' || n.lease, n.id)
       from unnest(tell.elections) as r(resource)
      cross join lateral (
            select c.lease, c.id
              from ringfence_private.candidate c join ringfence_private.lease s on s.id = c.lease
             where c.resource = r.resource and s.expires_at > clock_timestamp() order by c.token limit 1) n
      where ringfence.listens(n.lease);
end $$;

-- listens returns whether a lease is of a client that listens: its id is no name. Those of campaign and take have a
-- blank in theirs, and nobody listens; with a long resource it would be too long for a channel.
create or replace function ringfence.listens(p_lease text) returns boolean
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select position(' '::text in p_lease) = 0
$$;

-- look says where the candidates of a session are: those with these ids, or all. ahead is how many
-- are ahead, at most 2; with 0 ahead a candidate leads. wait is when the session of the leader
-- expires, in seconds from now. alive is whether the session is. All of it was so at one moment.
create or replace function ringfence.standing(
    session text, wanted text[],
    out alive boolean, out issuer text, out ids text[], out tokens bigint[], out ahead integer[], out wait double precision[])
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_era text := ringfence.begin_call();
begin
    perform ringfence.expel(ringfence.elections_of(standing.session, standing.wanted), v_era);
    select p.alive, p.issuer, p.ids, p.tokens, p.ahead, p.wait
      into alive, issuer, ids, tokens, ahead, wait from ringfence.places(standing.session, standing.wanted, v_era) p;
end $$;

-- beat renews a session that is not over, and then looks.
create or replace function ringfence.beat(
    session text,
    out alive boolean, out issuer text, out ids text[], out tokens bigint[], out ahead integer[], out wait double precision[])
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_era text := ringfence.begin_call();
begin
    perform ringfence.expel(ringfence.elections_of(beat.session, null::text[]), v_era);
    update ringfence_private.lease s set expires_at = clock_timestamp() + s.ttl * interval '1 millisecond'
     where s.id = beat.session and s.era = v_era and not s.over and s.expires_at > clock_timestamp();
    if not found then
        update ringfence_private.lease s set over = true where s.id = beat.session and not s.over;
        alive := false; issuer := ''; ids := '{}'; tokens := '{}'; ahead := '{}'; wait := '{}';
        return;
    end if;
    select p.alive, p.issuer, p.ids, p.tokens, p.ahead, p.wait
      into alive, issuer, ids, tokens, ahead, wait from ringfence.places(beat.session, null::text[], v_era) p;
end $$;

-- entered lists the elections of a session's candidates.
create or replace function ringfence.elections_of(p_session text, p_only text[]) returns text[]
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    return array(select distinct c.resource from ringfence_private.candidate c
                  where c.lease = p_session and (p_only is null or c.id = any (p_only)));
end $$;

-- places is one statement, and so of one moment. Only front may go before it.
create or replace function ringfence.places(
    p_session text, p_only text[], p_era text,
    out alive boolean, out issuer text, out ids text[], out tokens bigint[], out ahead integer[], out wait double precision[])
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
begin
    select exists (select from ringfence_private.lease s
                    where s.id = p_session and s.era = p_era and not s.over and s.expires_at > clock_timestamp()),
           ringfence.issuer(),
           coalesce(array_agg(c.id), '{}'), coalesce(array_agg(c.token), '{}'),
           coalesce(array_agg(f.ahead), '{}'), coalesce(array_agg(coalesce(f.wait, 0)), '{}')
      into alive, issuer, ids, tokens, ahead, wait
      from ringfence_private.candidate c
     cross join lateral (
           select count(*)::integer as ahead, (array_agg(extract(epoch from d.expires_at - clock_timestamp())::double precision order by d.token))[1] as wait
             from (select b.token, s.expires_at
                     from ringfence_private.candidate b join ringfence_private.lease s on s.id = b.lease
                    where b.resource = c.resource and b.token < c.token order by b.token limit 2) d) f
     where c.lease = p_session and (p_only is null or c.id = any (p_only));
end $$;

-- leaders returns the issuer and the leader of each resource, token 0 where nobody leads. The last
-- statement reads all of it at one moment.
create or replace function ringfence.leaders(
    resources text[], out issuer text, out tokens bigint[], out ids text[], out holders text[])
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_era text := ringfence.begin_call();
begin
    perform ringfence.expel(leaders.resources, v_era);
    select ringfence.issuer(),
           coalesce(array_agg(coalesce(l.token, 0) order by r.place), '{}'),
           coalesce(array_agg(coalesce(l.id, '') order by r.place), '{}'),
           coalesce(array_agg(coalesce(l.holder, '') order by r.place), '{}')
      into issuer, tokens, ids, holders
      from unnest(leaders.resources) with ordinality as r(resource, place)
      left join lateral (
           select c.token, c.id, c.holder from ringfence_private.candidate c
            where c.resource = r.resource order by c.token limit 1) l on true;
end $$;

-- candidates lists an election in order of tokens. wait is when the next session of it expires, in
-- seconds from now.
create or replace function ringfence.candidates(
    resource text, out tokens bigint[], out ids text[], out holders text[], out ready boolean[], out wait double precision)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_era text := ringfence.begin_call();
begin
    perform ringfence.expel(array[candidates.resource], v_era, null::integer);
    select coalesce(array_agg(c.token order by c.token), '{}'), coalesce(array_agg(c.id order by c.token), '{}'),
           coalesce(array_agg(c.holder order by c.token), '{}'),
           coalesce(array_agg(c.ready order by c.token), '{}'),
           coalesce(extract(epoch from min(s.expires_at) - clock_timestamp()), 0)::double precision
      into tokens, ids, holders, ready, wait
      from ringfence_private.candidate c join ringfence_private.lease s on s.id = c.lease
     where c.resource = candidates.resource;
end $$;

-- acknowledge publishes that a leader is ready, unless its candidate or its session is gone.
create or replace function ringfence.acknowledge(id text, token bigint) returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_era text := ringfence.begin_call();
begin
    update ringfence_private.candidate c set ready = true
     where c.id = acknowledge.id and c.token = acknowledge.token
       and exists (select from ringfence_private.lease s
                    where s.id = c.lease and s.era = v_era and not s.over and s.expires_at > clock_timestamp());
    return found;
end $$;

-- withdraw deletes candidates of a session.
create or replace function ringfence.withdraw(session text, ids text[]) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform ringfence.begin_call(array(select c.resource::text from ringfence_private.candidate c where c.lease = withdraw.session and c.id = any (withdraw.ids)));
    delete from ringfence_private.candidate c where c.lease = withdraw.session and c.id = any (withdraw.ids);
end $$;

-- resign deletes a candidate of a session, whose holder has stopped. The client sends the notices
-- afterwards (tell). If nobody else is in the election, it waits for no disk: who enrols next commits
-- later, and waits for both. A crash of the server before that only undoes the resignation; then the
-- session's next beat finds a candidate that nobody knows, and deletes it.
create or replace function ringfence.resign(session text, id text) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_resource text;
begin
    select c.resource into v_resource from ringfence_private.candidate c where c.lease = resign.session and c.id = resign.id;
    perform ringfence.begin_call(array[v_resource]);
    perform ringfence.without_notices();
    perform from ringfence_private.election e where e.resource = v_resource for no key update; -- nobody enrols meanwhile
    delete from ringfence_private.candidate c where c.lease = resign.session and c.id = resign.id;
    if not exists (select from ringfence_private.candidate c where c.resource = v_resource) then
        perform set_config('synchronous_commit', 'off', true);
    end if;
end $$;

-- takes_part returns whether an election has a candidate with this token.
create or replace function ringfence.takes_part(resource text, token bigint) returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform ringfence.begin_call();
    return exists (select from ringfence_private.candidate c where c.resource = takes_part.resource and c.token = takes_part.token);
end $$;

-- depose deletes the candidate with this token, whoever holds it.
create or replace function ringfence.depose(resource text, token bigint) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform ringfence.begin_call(array[depose.resource]);
    perform ringfence.remove(depose.resource, depose.token, ''::text);
end $$;

-- silent returns whether the triggers send no notices in this transaction: a client sends them later, or
-- the server's queue of notices is half full, because a session that listens has left a transaction open.
-- The commit of a transaction with a notice fails when the queue is full. A notice that is lost costs
-- only time.
create or replace function ringfence.silent() returns boolean
language sql volatile set search_path = pg_catalog, pg_temp as $$
    select current_setting('ringfence._without_notices', true) = 'on' or pg_notification_queue_usage() >= 0.5
$$;

-- changed tells the watchers of elections that a leader is ready.
create or replace function ringfence.changed() returns trigger
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    if ringfence.silent() then
        return null;
    end if;
    perform pg_notify('ringfence_e_' || r.resource, '') from (select distinct c.resource from changed c) r;
    return null;
end $$;

-- led tells the watchers of elections about candidates that lead as soon as they are enrolled. A
-- candidate that has to wait sends no notice: it would wake every connection that listens in the
-- database, and a crowd of them would keep the server busy until sessions expired.
create or replace function ringfence.led() returns trigger
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    if ringfence.silent() then
        return null;
    end if;
    perform pg_notify('ringfence_e_' || c.resource, '') from changed c
      where not exists (select from ringfence_private.candidate b where b.resource = c.resource and b.token < c.token);
    return null;
end $$;

-- removed runs after every deletion of candidates, by a function, with a session, or by hand. It
-- notifies the sessions of the deleted candidates, and of those who wait only the new leader: the
-- first whose session is alive, unless it led before.
create or replace function ringfence.removed() returns trigger
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform ringfence.durable();
    if ringfence.silent() then
        return null;
    end if;
    perform pg_notify('ringfence_e_' || r.resource, '') from (select distinct c.resource from changed c) r;
    perform pg_notify('ringfence_s_' || c.lease, c.id) from changed c where ringfence.listens(c.lease);
    perform pg_notify('ringfence_s_' || n.lease, n.id)
       from (select c.resource, min(c.token) as token from changed c group by c.resource) r
      cross join lateral (
            select c.lease, c.id, c.token
              from ringfence_private.candidate c join ringfence_private.lease s on s.id = c.lease
             where c.resource = r.resource and s.expires_at > clock_timestamp() order by c.token limit 1) n
      where n.token > r.token and ringfence.listens(n.lease);
    return null;
end $$;

drop trigger if exists entered on ringfence_private.candidate;
create trigger entered after insert on ringfence_private.candidate
    referencing new table as changed for each statement execute function ringfence.led();
drop trigger if exists updated on ringfence_private.candidate;
create trigger updated after update on ringfence_private.candidate
    referencing new table as changed for each statement execute function ringfence.changed();
drop trigger if exists removed on ringfence_private.candidate;
create trigger removed after delete on ringfence_private.candidate
    referencing old table as changed for each statement execute function ringfence.removed();

-- change_documents makes a change of documents as a whole, while each of these terms leads. outcome
-- is 'done', with the new versions, or why claim number place does not lead, with the leader. The
-- change keeps the candidates' rows from being deleted until it has committed, so nobody else is
-- elected before that. It takes the documents in the order of their paths, so two changes cannot
-- wait for each other. If one has another version it fails with RFE04, and nothing has changed. The client
-- sends the notices afterwards (tell).
create or replace function ringfence.change_documents(
    resources text[], tokens bigint[], candidates text[], issuers text[],
    folders text[], names text[], expected bigint[], kinds integer[], data bytea[],
    out outcome text, out place integer, out leader bigint, out holder text, out versions bigint[])
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_era text := ringfence.begin_call(change_documents.resources);
    w record;
    v_version bigint;
begin
    versions := array_fill(0::bigint, array[cardinality(change_documents.names)]);
    select r.outcome, r.place, r.leader, r.holder into outcome, place, leader, holder
      from ringfence.who_does_not_lead(change_documents.resources, change_documents.tokens, change_documents.candidates, change_documents.issuers, v_era) r;
    if outcome is not null then
        return;
    end if;
    for w in select * from unnest(change_documents.folders, change_documents.names, change_documents.expected, change_documents.kinds, change_documents.data) with ordinality
                 as u(folder, name, version, kind, data, place) order by u.folder collate "C", u.name collate "C" loop
        v_version := ringfence.write_document(w.folder, w.name, w.version, w.kind, w.data);
        if v_version is null then
            raise exception 'the document %/% has another version', w.folder, w.name using errcode = 'RFE04';
        end if;
        versions[w.place] := v_version;
    end loop;
    outcome := 'done';
end $$;

-- who_does_not_lead returns the place of the first of these claims that does not lead, why, and who leads
-- instead. outcome is null if all lead. Their rows stay then until the transaction ends.
create or replace function ringfence.who_does_not_lead(
    p_resources text[], p_tokens bigint[], p_candidates text[], p_issuers text[], p_era text,
    out outcome text, out place integer, out leader bigint, out holder text)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_issuer text := ringfence.issuer();
begin
    if cardinality(p_resources) > 0 then
        perform ringfence.expel(p_resources, p_era);
    end if;
    for v_place in 1 .. cardinality(p_resources) loop
        outcome := ringfence.leads(p_resources[v_place], p_tokens[v_place], p_candidates[v_place]);
        if p_issuers[v_place] is distinct from v_issuer then
            outcome := 'other issuer';
        end if;
        if outcome <> 'leads' then
            place := v_place;
            select c.token, c.holder into leader, holder from ringfence_private.candidate c
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
create or replace function ringfence.leads(p_resource text, p_token bigint, p_candidate text) returns text
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform from ringfence_private.candidate c
      where c.resource = p_resource and c.token = p_token and p_candidate in ('', c.id) for key share;
    if found then
        return case when exists (select from ringfence_private.candidate c
                                  where c.resource = p_resource and c.token < p_token) then 'waits' else 'leads' end;
    end if;
    return case when p_token > coalesce((select e.last from ringfence_private.election e where e.resource = p_resource and e.issuer = ringfence.issuer()), 0)
           then 'unknown' else 'gone' end;
end $$;

-- write_document puts (kind 1), deletes (2) or keeps (3) a document that has this version, 0 if there
-- must be none, -1 for any. It returns the new version, 0 if there is none, or null if it had another.
create or replace function ringfence.write_document(
    p_folder text, p_name text, p_version bigint, p_kind integer, p_data bytea) returns bigint
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_version bigint;
begin
    if p_kind = 1 and p_version = 0 then
        insert into ringfence_private.document (folder, name, data) values (p_folder, p_name, p_data)
            on conflict do nothing returning version into v_version;
    elsif p_kind = 1 then
        update ringfence_private.document d
           set data = p_data, version = nextval('ringfence_private.document_version')
         where d.folder = p_folder and d.name = p_name and d.version = p_version returning d.version into v_version;
    elsif p_kind = 2 then
        delete from ringfence_private.document d
         where d.folder = p_folder and d.name = p_name and p_version in (d.version, -1) returning 0 into v_version;
    else
        select 0 into v_version from ringfence_private.document d
         where d.folder = p_folder and d.name = p_name and d.version = p_version for share;
    end if;
    return v_version;
end $$;

-- read_documents returns the documents of these names that exist, while each of these terms leads. Every
-- change of an earlier leader was committed before that, because it keeps its candidate's row. If claim
-- number place does not lead, there is one row with the outcome and the leader.
create or replace function ringfence.read_documents(
    resources text[], tokens bigint[], candidates text[], issuers text[], folders text[], names text[])
returns table (outcome text, place bigint, leader bigint, holder text, version bigint, data bytea)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_refused record;
begin
    select * into v_refused from ringfence.who_does_not_lead(
        read_documents.resources, read_documents.tokens, read_documents.candidates, read_documents.issuers, ringfence.begin_call(read_documents.resources));
    if v_refused.outcome is not null then
        return query select v_refused.outcome, v_refused.place::bigint, v_refused.leader, v_refused.holder,
                            null::bigint, null::bytea;
        return;
    end if;
    return query select 'done', u.place, null::bigint, null::text, d.version, d.data
       from unnest(read_documents.folders, read_documents.names) with ordinality as u(folder, name, place)
       join ringfence_private.document d on d.folder = u.folder and d.name = u.name;
end $$;

-- list_documents returns the names in a folder, sorted.
create or replace function ringfence.list_documents(folder text) returns text[]
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform ringfence.begin_call();
    return array(select d.name from ringfence_private.document d where d.folder = list_documents.folder order by d.name);
end $$;
