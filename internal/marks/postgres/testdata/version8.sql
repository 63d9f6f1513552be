begin;
set local client_min_messages = warning;
set local search_path = pg_catalog, pg_temp;
set local lock_timeout = '10s';
select pg_advisory_xact_lock(1919512167);

-- Version 1: marks, sessions, the audit of adoptions. Every statement here may be repeated. A later
-- version is a file of its own that runs after this one.

create schema if not exists ringfence;
comment on schema ringfence is 'Ringfence: who may write. See guard install --print';

-- One row. server is the server (see ringfence.server) for which an operator last vouched for the
-- marks. On another server (a failover, a restore) a missing mark does not mean that there never
-- was one.
create table if not exists ringfence.installation (
    only_row     boolean primary key default true check (only_row),
    version      integer not null,
    server       text not null,
    installed_at timestamptz not null default clock_timestamp()
);

-- The mark: the highest token accepted for a resource. The table is logged, so a mark is as durable
-- as the other data.
create table if not exists ringfence.mark (
    resource  text primary key check (resource ~ '^[a-z][a-z0-9_]{0,47}$'),
    token     bigint not null check (token >= 0),
    issuer    text not null,
    holder    text not null,
    raised_at timestamptz not null default clock_timestamp(),
    server    text not null
);

-- The sessions admitted under a mark. The table is unlogged: a crash that empties it has ended
-- every session that it listed.
create unlogged table if not exists ringfence.session (
    resource      text not null,
    token         bigint not null,
    issuer        text not null,
    pid           integer not null,
    backend_start timestamptz not null,
    primary key (resource, pid, backend_start)
);
create index if not exists session_by_process on ringfence.session (pid, backend_start);
create index if not exists session_by_token on ringfence.session (resource, token);

-- Which operator started which issuer's count, and the mark before.
create table if not exists ringfence.adoption (
    adopted_at timestamptz not null default clock_timestamp(),
    by_role    name not null default session_user,
    by_holder  text not null,
    resource   text not null,
    old_issuer text,
    old_token  bigint,
    new_issuer text not null,
    new_token  bigint not null
);

-- Version 2: checkpoints. One row per task; version counts the published checkpoints.
create table if not exists ringfence.checkpoint (
    task       text primary key,
    resource   text not null,
    version    bigint not null check (version > 0),
    token      bigint not null,
    checkpoint json not null,
    saved_at   timestamptz not null default clock_timestamp()
) with (fillfactor = 50);

-- Version 3: marks, gates and the registry of sessions belong to one run of one server, and to rows
-- that this schema's functions wrote there. A row that came from elsewhere (a dump, a snapshot,
-- CREATE DATABASE … TEMPLATE) proves nothing about which tokens were accepted since.
--
-- run      the run of the server on which the row was last raised or confirmed: see ringfence.run
-- written  the transaction that wrote this version of the row: a row is original while written = xmin. COPY and INSERT
--          give a copied row another xmin; VACUUM, freezing and pg_upgrade keep it.

-- registry names the registry that is complete (see ringfence.registry). Null means that sessions
-- may be alive which the registry does not list.
do $$
begin
    if not exists (select from pg_attribute where attrelid = 'ringfence.mark'::regclass and attname = 'written') then
        alter table ringfence.installation add column registry text, add column written xid;
        alter table ringfence.mark add column run text, add column written xid, add column adoption text not null default '';
        drop table if exists ringfence.gate;
        -- Marks of earlier versions are kept. No run has confirmed them, so each must be raised
        -- once more.
        update ringfence.mark set server = server || '/' || (select oid from pg_database where datname = current_database());
        update ringfence.mark set written = xmin;
        update ringfence.installation
           set server = server || '/' || (select oid from pg_database where datname = current_database()), registry = null;
        update ringfence.installation set written = xmin;
    end if;
end $$;

-- The gate: the mark as transactions check it. Only raise, adopt and revoke write it, and nothing
-- locks it, so a row version whose xmax is 0 is the newest one (see enter). A raise closes the
-- gate. It is opened once all sessions and transactions under older tokens have ended. number is
-- that of this raise, older has those of raises whose transactions may still be open.
create table if not exists ringfence.gate (
    resource text primary key,
    token    bigint not null,
    issuer   text not null,
    run      text not null,
    open     boolean not null,
    number   integer not null,
    older    integer[] not null default '{}',
    written  xid
) with (fillfactor = 50);
insert into ringfence.gate (resource, token, issuer, run, open, number)
select m.resource, m.token, m.issuer, '', false, 0 from ringfence.mark m on conflict do nothing;

-- An empty table that only enter reads. Only the schema's owner has a privilege on it, so a backend
-- that holds a lock on it has entered. An advisory lock proves nothing, because anybody may take
-- one.
create table if not exists ringfence.entered ();

-- Each raise updates a row of mark in place. Rows of session come and go with connections.
alter table ringfence.mark set (fillfactor = 50);
alter table ringfence.session set (autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0.1);

-- Version 4: a session that attaches gets a number, by which publish recognizes it.
--
-- attachment  the number that attach gave to the session; null if only a guard has registered it
do $$
begin
    if not exists (select from pg_attribute where attrelid = 'ringfence.session'::regclass and attname = 'attachment') then
        alter table ringfence.session add column attachment bigint;
        create unique index session_by_attachment on ringfence.session (attachment);
    end if;
end $$;

-- The numbers. Only attach draws one. currval returns the last number that the caller's own backend
-- has drawn, and the sequence gives no number twice, so a session cannot have another one's number.
-- Only the schema's owner has a privilege on the sequence.
create sequence if not exists ringfence.attachment;

-- Version 5: sealed tables. The triggers on them decide (see seal); this table is only what the
-- operator has asked for, by name, so that guard check finds a table that has lost its trigger.
create table if not exists ringfence.sealed (
    schema_name name not null,
    table_name  name not null,
    resource    text not null check (resource ~ '^[a-z][a-z0-9_]{0,47}$'),
    sealed_at   timestamptz not null default clock_timestamp(),
    sealed_by   name not null default session_user,
    primary key (schema_name, table_name)
);

-- When a backend started, in microseconds, as seal remembers it. Only currval is used: it is the
-- value that the caller's own backend has set. Only the schema's owner has a privilege on the
-- sequence.
create sequence if not exists ringfence.birth;

-- Version 6: authorization: which role may claim which resource. It is off until an operator switches
-- it on.
--
-- authorize  whether register and enter look at ringfence.allowed
do $$
begin
    if not exists (select from pg_attribute where attrelid = 'ringfence.installation'::regclass and attname = 'authorize') then
        alter table ringfence.installation add column authorize boolean not null default false;
    end if;
end $$;

-- Who may claim what. A row counts only for the very role and database that it was written for, and
-- only as it was written: a row that came from a dump, or that names a role which was dropped and
-- created again, allows nothing. A failover and pg_upgrade keep all of that; see forbidden.
--
-- pattern      a resource, or a pattern in which * stands for any text
-- role_id      the role
-- database_id  the database
-- written      as in ringfence.mark
create table if not exists ringfence.allowed (
    role        name not null,
    pattern     text not null check (pattern ~ '^[a-z*][a-z0-9_*]{0,47}$'),
    role_id     oid not null,
    database_id oid not null,
    allowed_at  timestamptz not null default clock_timestamp(),
    allowed_by  name not null default session_user,
    written     xid,
    primary key (role, pattern)
);

-- Version 7: the backends of sessions that were let go. Their records are closed, and they are to end.
-- The table is unlogged: a crash that empties it has ended every backend that it listed.
create unlogged table if not exists ringfence.leaving (
    pid           integer not null,
    backend_start timestamptz not null,
    primary key (pid, backend_start)
);
alter table ringfence.leaving set (autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0.1);

-- Version 8: a mark belongs to a candidate, and not only to a number. A coordinator that was restored
-- gives out numbers again.
--
-- candidate    whose term has raised the mark; empty where that is not known
-- rolled_back  a leader of the mark's issuer was seen below the mark, or at it as another candidate:
--              nobody of that issuer counts any more, until an operator adopts the resource
do $$
begin
    if not exists (select from pg_attribute where attrelid = 'ringfence.mark'::regclass and attname = 'candidate') then
        alter table ringfence.mark add column candidate text not null default '', add column rolled_back boolean not null default false;
        alter table ringfence.gate add column candidate text not null default '', add column rolled_back boolean not null default false;
    end if;
end $$;

-- Which server this is. These are PL/pgSQL functions because enter calls them: SQL functions are
-- parsed and planned again in every transaction.

-- server names the data: system identifier, timeline, database. It changes with a failover and in a
-- copy of the database. A restored disk snapshot or base backup has the same server as its
-- original.
create or replace function ringfence.server() returns text
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    return (pg_control_system()).system_identifier || '/' || substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8)
        || '/' || (select d.oid from pg_database d where d.datname = current_database());
end $$;

-- run names one run of that server. In another run every earlier session has ended, and the data
-- may be older. Give it the server where that is known: finding it out reads a file.
create or replace function ringfence.run_of(p_server text) returns text
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
    return p_server || '/' || (extract(epoch from pg_postmaster_start_time()) * 1000000)::bigint;
end $$;

create or replace function ringfence.run() returns text
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    return ringfence.run_of(ringfence.server());
end $$;

-- registry names the table of sessions on this run. A table that was created again is another
-- registry.
create or replace function ringfence.registry_of(p_run text) returns text
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
    return p_run || '/' || 'ringfence.session'::regclass::oid;
end $$;

create or replace function ringfence.registry() returns text
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    return ringfence.registry_of(ringfence.run());
end $$;

-- own_start returns when the caller's backend started. The schema's owner may have no privilege to
-- see that of other roles.
create or replace function ringfence.own_start() returns timestamptz
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    return (select a.backend_start from pg_stat_get_activity(pg_backend_pid()) a);
end $$;

-- leg identifies the caller's backend and the server's run. A guard calls it on a client's upstream
-- connection, before the client may use that, if the server does not show it the name that it has
-- sent there. It returns the pid, the start in microseconds, whether the role is a superuser, and
-- the run; 'standby' on a server in recovery.
create or replace function ringfence.leg() returns text
language plpgsql volatile security invoker set search_path = pg_catalog, pg_temp as $$
declare
    v_start timestamptz := (select a.backend_start from pg_stat_get_activity(pg_backend_pid()) a);
begin
    if pg_is_in_recovery() then
        return 'standby';
    end if;
    return format('%s %s %s %s', pg_backend_pid(), (extract(epoch from coalesce(v_start, ringfence.own_start())) * 1000000)::bigint,
        (select r.rolsuper from pg_roles r where r.rolname = session_user), ringfence.run());
end $$;

-- Transactions under a token, for a program that leads without a guard.

-- enter puts a transaction under a claim, or fails it. It checks the gate, takes the locks that
-- revoke looks for, and checks the gate again. It is right under every isolation level:
--
-- Both locks last until the transaction ends, so revoke can find the transaction in pg_locks from
-- before the second check. One lock is on the empty table ringfence.entered, where nobody else can
-- take one. The other is an advisory lock on the raise's number, which identifies the resource. Its
-- second half is the pid, so a transaction that enters again takes no further lock. If somebody
-- holds that one exclusively, the second half is random, so nobody can block it.
--
-- Under READ COMMITTED the second check has its own snapshot, newer than the locks. A raise that it
-- does not see commits later, and then finds the locks. Under REPEATABLE READ and SERIALIZABLE the
-- snapshot may be older than the locks and show a row version that a raise has replaced since. But
-- that version carries the raise's transaction id in its xmax, which does not depend on snapshots
-- (PostgreSQL manual, 5.5 System Columns). So xmax 0 means that this is the newest version.
--
-- The first check keeps those that will be refused away from the locks: an old leader that retries
-- all the time must not look like one that is inside.
--
-- A gate counts only on the run of the server on which its mark was raised, and only while its row
-- is original.
--
-- If authorization is on, the session's own role must be allowed to claim the resource. That comes
-- first. A transaction whose snapshot is from before it was switched on counts as one from before.
--
-- p_candidate is whose term it is, for those who know it: a coordinator that was restored may have
-- given the same number to somebody else.
drop function if exists ringfence.enter(text, bigint, text);
create or replace function ringfence.enter(p_resource text, p_token bigint, p_issuer text, p_candidate text default '') returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_run text := ringfence.run();
    v_number integer;
    g record;
begin
    if (select i.authorize from ringfence.installation i) then
        perform ringfence.check_allowed(p_resource, p_token);
    end if;
    for v_look in 1..2 loop
        if v_look = 2 then
            v_number := g.number;
            if not pg_try_advisory_xact_lock_shared(v_number, pg_backend_pid()) then
                while not pg_try_advisory_xact_lock_shared(v_number, hashtext(gen_random_uuid()::text)) loop
                end loop;
            end if;
            perform from ringfence.entered;
        end if;
        select t.token, t.issuer, t.run, t.open, t.number, t.written = t.xmin as original, t.xmax <> '0'::xid as touched,
               t.candidate, t.rolled_back into g
          from ringfence.gate t where t.resource = p_resource;
        if (g.token, g.issuer, g.run, g.open, g.original, g.number, g.rolled_back) is distinct from
           (p_token, p_issuer, v_run, true, true, coalesce(v_number, g.number), false)
           or p_candidate <> '' and g.candidate <> '' and p_candidate <> g.candidate then
            perform ringfence.refuse(p_resource, p_token, p_issuer, g.token, g.issuer, p_candidate);
        end if;
    end loop;
    if g.touched and current_setting('transaction_isolation') in ('repeatable read', 'serializable') then
        perform ringfence.newest(p_resource);
    end if;
    perform set_config('ringfence.' || p_resource, 'entered ' || p_token || ' ' || p_issuer, true);
end $$;

-- newest fails with 40001, try again, when the row version of the gate that this transaction sees
-- has been replaced. A raise that was rolled back has replaced nothing; an open one is waited for.
-- The check takes the row's lock in a block that ends with an exception, which releases the lock:
-- the next raise must not have to wait for it.
create or replace function ringfence.newest(p_resource text) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform 1 from ringfence.gate t where t.resource = p_resource for share;
    raise exception using errcode = 'RF000';
exception when sqlstate 'RF000' then
    null;
end $$;

-- inside lists the transactions that entered before the last raise and have not ended: the pids of
-- their backends, and the names of the prepared ones. Pid 0 is a transaction that is being prepared
-- or finished right now. Call it after the raise has committed: from then on none enters under an
-- older number, so a transaction that is not listed has ended.
drop function if exists ringfence.inside(text, bigint, text);
create or replace function ringfence.inside(p_resource text, out pids integer[], out gids text[])
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    with held as materialized (
        select * from pg_locks l where l.locktype in ('advisory', 'relation', 'transactionid') and l.granted
    ), older as materialized (
        select unnest(g.older)::bigint as number from ringfence.gate g where g.resource = p_resource
    )
    select coalesce(array_agg(distinct i.pid) filter (where i.gid is null), '{}'),
           coalesce(array_agg(distinct i.gid) filter (where i.gid is not null), '{}')
      into pids, gids
      from (
        select coalesce(h.pid, 0) as pid,
               (select min(x.gid) from held own join pg_prepared_xacts x on x.transaction = own.transactionid
                 where h.pid is null and own.virtualtransaction = h.virtualtransaction) as gid
          from held h
         where h.locktype = 'advisory' and h.objsubid = 2 and h.classid::bigint in (select o.number from older o)
           and h.database = (select d.oid from pg_database d where d.datname = current_database())
           and exists (select from held e where e.locktype = 'relation' and e.mode = 'AccessShareLock' and e.relation = 'ringfence.entered'::regclass
                          and e.database = h.database and e.virtualtransaction = h.virtualtransaction)
      ) i;
end $$;

-- is_open returns whether a transaction that began now could enter. It takes no lock, so the answer
-- may be outdated when it returns.
drop function if exists ringfence.is_open(text, bigint, text);
create or replace function ringfence.is_open(p_resource text, p_token bigint, p_issuer text, p_candidate text) returns boolean
language sql volatile security definer set search_path = pg_catalog, pg_temp as $$
    select exists (select from ringfence.gate g where g.resource = p_resource and g.token = p_token and g.issuer = p_issuer
                      and ('' in (p_candidate, g.candidate) or g.candidate = p_candidate) and g.open and not g.rolled_back and g.run = ringfence.run() and g.written = g.xmin)
$$;

-- refuse fails a transaction that must not enter, with the reason, in the words of internal/refusal.
drop function if exists ringfence.refuse(text, bigint, text, bigint, text);
create or replace function ringfence.refuse(
    p_resource text, p_token bigint, p_issuer text, p_mark bigint, p_mark_issuer text, p_candidate text default '') returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    m record;
begin
    select k.holder, k.raised_at, k.candidate, k.rolled_back into m from ringfence.mark k where k.resource = p_resource;
    if p_mark_issuer <> p_issuer then
        raise exception using errcode = 'RF004', schema = 'ringfence', table = p_resource,
            column = p_token::text, constraint = coalesce(p_mark, 0)::text,
            message = format('token %s of "%s" comes from another issuer than the mark %s', p_token, p_resource, coalesce(p_mark, 0)),
            detail = format('the mark was raised under %s, the token comes from %s: their numbers cannot be compared; nothing of this transaction was written', p_mark_issuer, p_issuer),
            hint = format('if the coordinator was rebuilt or replaced, and no older leader runs, an operator runs: guard adopt %s', p_resource);
    elsif m.rolled_back or p_mark = p_token and m.candidate <> '' and p_candidate not in ('', m.candidate) then
        raise exception using errcode = 'RF004', schema = 'ringfence', table = p_resource,
            column = p_token::text, constraint = coalesce(p_mark, 0)::text,
            message = format('the coordinator went back: it gives out tokens of "%s" a second time', p_resource),
            detail = format('a leader had a token that issuer %s has given to another one before, as after a restore from a backup; nothing of this transaction was written', p_issuer),
            hint = format('an operator stops all leaders, paused ones too, and runs: guard adopt --new-issuer %s', p_resource);
    elsif p_mark > p_token then
        raise exception using errcode = 'RF001', schema = 'ringfence', table = p_resource,
            column = p_token::text, constraint = coalesce(p_mark, 0)::text,
            message = format('stale token: %s is older than the mark %s of "%s"', p_token, p_mark, p_resource),
            detail = format('%s has led "%s" since %s; nothing of this transaction was written', coalesce(nullif(m.holder, ''), 'a newer leader'), p_resource,
                to_char(m.raised_at at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')),
            hint = 'this process no longer leads: stop, or campaign for a new token; this one will never be taken again';
    end if;
    raise exception using errcode = 'RF007', schema = 'ringfence', table = p_resource,
        column = p_token::text, constraint = coalesce(p_mark, 0)::text,
        message = format('the mark of "%s" is not raised to token %s', p_resource, p_token),
        detail = format('the mark is %s, or what was under it may not have ended, or the server has changed since it was raised; nothing of this transaction was written', coalesce(p_mark, 0)),
        hint = 'raise the mark with this token, then try again';
end $$;

-- The functions of a guard. Every install replaces them, so they always match the program that
-- installed them. SECURITY DEFINER functions use only the tables of this schema. What needs a
-- privilege of the server (reading pg_stat_activity, ending a backend) runs with the caller's own.

-- version returns the version of the schema.
create or replace function ringfence.version() returns integer
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    select version from ringfence.installation
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

-- complete returns whether ringfence.session lists every session that may be alive.
create or replace function ringfence.complete() returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    return exists (select from ringfence.installation i where i.registry = ringfence.registry() and i.written = i.xmin);
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
drop function if exists ringfence.register(integer, timestamptz, text[], bigint[], text);
drop function if exists ringfence.register(integer, timestamptz, text, text[], bigint[], text);
drop function if exists ringfence.register(integer, timestamptz, text, text[], bigint[], text[], text);
create or replace function ringfence.register(
    p_pid integer, p_backend_start timestamptz, p_run text, p_resources text[], p_tokens bigint[], p_candidates text[], p_issuer text,
    out step text, out resource text, out token bigint, out issuer text, out holder text, out raised_at timestamptz,
    out confirmed boolean, out continued boolean, out adoption text, out candidate text, out rolled_back boolean,
    out basis text, out older bigint)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_server text := ringfence.server();
    v_run text := ringfence.run_of(v_server);
    v_complete boolean;
    v_vouched boolean;
    v_role oid;
begin
    perform ringfence.check_isolation();
    basis := ''; older := 0; token := 0; issuer := ''; holder := ''; confirmed := false; continued := false;
    adoption := ''; candidate := ''; rolled_back := false;
    if p_run <> v_run then
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
    perform 1 from ringfence.mark m where m.resource = any (p_resources) order by m.resource for no key update;
    select i.written = i.xmin and coalesce(i.registry = ringfence.registry_of(v_run), false), i.written = i.xmin and i.server = v_server
      into v_complete, v_vouched from ringfence.installation i;

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
          left join ringfence.mark m on m.resource = wanted.resource
          left join lateral (
            select g.open, (g.token, g.issuer, g.run) = (m.token, m.issuer, m.run) and g.written = g.xmin as fits
              from ringfence.gate g where g.resource = m.resource
          ) gate on true
      ) w
     order by array_position(array['issuer', 'stale', 'raise', 'revoke', 'admitted'], w.step), w.place
     limit 1;

    if step = 'admitted' then
        insert into ringfence.session (resource, token, issuer, pid, backend_start)
        select wanted.resource, wanted.token, p_issuer, p_pid, p_backend_start
          from unnest(p_resources, p_tokens) as wanted(resource, token)
            on conflict do nothing;
        -- An open gate stays open while its mark is locked.
        perform ringfence.open(wanted.resource, wanted.token, p_issuer)
           from unnest(p_resources, p_tokens) as wanted(resource, token) join ringfence.gate g on g.resource = wanted.resource
          where not g.open;
    elsif step = 'raise' then
        -- The mark and its basis must come from one look: a mark that is not there cannot be
        -- locked, so somebody may have raised it since the statement above.
        select l.token, l.issuer, l.holder, l.raised_at, l.confirmed, l.continued, l.adoption, l.candidate, l.rolled_back, l.basis
          into token, issuer, holder, raised_at, confirmed, continued, adoption, candidate, rolled_back, basis
          from ringfence.look(resource) l;
        select count(*) + (select count(*) from ringfence.leaving) into older
          from unnest(p_resources, p_tokens) as wanted(resource, token)
          join ringfence.session s on s.resource = wanted.resource and (s.token <> wanted.token or s.issuer <> p_issuer)
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
drop function if exists ringfence.look(text);
create or replace function ringfence.look(
    p_resource text,
    out token bigint, out issuer text, out holder text, out raised_at timestamptz, out confirmed boolean, out continued boolean,
    out adoption text, out candidate text, out rolled_back boolean, out basis text)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_server text := ringfence.server();
    v_run text := ringfence.run_of(v_server);
    m record;
    i record;
begin
    select k.*, k.xmin as row_xmin into m from ringfence.mark k where k.resource = p_resource;
    select n.*, n.xmin as row_xmin, n.registry = ringfence.registry_of(v_run) as complete into i from ringfence.installation n;
    token := coalesce(m.token, 0); issuer := coalesce(m.issuer, ''); holder := coalesce(m.holder, ''); raised_at := m.raised_at;
    adoption := coalesce(m.adoption, ''); candidate := coalesce(m.candidate, ''); rolled_back := coalesce(m.rolled_back, false);
    if m.resource is null then
        continued := coalesce(i.server = v_server and i.written = i.row_xmin, false);
        confirmed := continued and coalesce(i.complete, false);
    else
        continued := coalesce(m.server = v_server and m.written = m.row_xmin, false);
        confirmed := coalesce(m.run = v_run and m.written = m.row_xmin, false);
    end if;
    basis := concat_ws(' ', v_run, 'ringfence.mark'::regclass::oid, i.row_xmin, coalesce(m.row_xmin::text, '-'));
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
drop function if exists ringfence.raise(text, bigint, text, text);
drop function if exists ringfence.raise(text, bigint, text, text, text);
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
    perform 1 from ringfence.mark m where m.resource = p_resource for update;
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
    v_mark boolean := (select m.written = m.xmin from ringfence.mark m where m.resource = p_resource);
    v_gate boolean := (select g.written = g.xmin from ringfence.gate g where g.resource = p_resource);
begin
    update ringfence.mark m set rolled_back = true where m.resource = p_resource;
    update ringfence.mark m set written = m.xmin where m.resource = p_resource and v_mark;
    update ringfence.gate g set rolled_back = true where g.resource = p_resource;
    update ringfence.gate g set written = g.xmin where g.resource = p_resource and v_gate;
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
drop function if exists ringfence.write_mark(boolean, text, bigint, text, text, timestamptz, text);
create or replace function ringfence.write_mark(
    p_there boolean, p_resource text, p_token bigint, p_issuer text, p_holder text, p_raised timestamptz, p_adoption text,
    p_candidate text) returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_server text := ringfence.server();
    v_run text := ringfence.run_of(v_server);
begin
    if p_there then
        update ringfence.mark m
           set token = p_token, issuer = p_issuer, holder = p_holder, raised_at = p_raised, server = v_server, run = v_run,
               adoption = p_adoption, candidate = p_candidate, rolled_back = false
         where m.resource = p_resource
           and ((m.token, m.issuer, m.run, m.adoption, m.candidate) is distinct from (p_token, p_issuer, v_run, p_adoption, p_candidate)
                or m.written is distinct from m.xmin);
    else
        insert into ringfence.mark (resource, token, issuer, holder, raised_at, server, run, adoption, candidate)
        values (p_resource, p_token, p_issuer, p_holder, p_raised, v_server, v_run, p_adoption, p_candidate) on conflict do nothing;
        if not found then
            return false;
        end if;
    end if;
    update ringfence.mark m set written = m.xmin where m.resource = p_resource and m.written is distinct from m.xmin;
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
drop function if exists ringfence.shut(text, bigint, text, text);
create or replace function ringfence.shut(p_resource text, p_token bigint, p_issuer text, p_run text, p_candidate text) returns void
language sql volatile security definer set search_path = pg_catalog, pg_temp as $$
    insert into ringfence.gate (resource, token, issuer, run, open, number)
    values (p_resource, p_token, p_issuer, '', false, ringfence.number()) on conflict do nothing;
    update ringfence.gate g
       set token = p_token, issuer = p_issuer, run = p_run, candidate = p_candidate, rolled_back = false, open = false,
           number = ringfence.number(), older = g.older || g.number
     where g.resource = p_resource
       and ((g.token, g.issuer, g.run, g.candidate, g.rolled_back) is distinct from (p_token, p_issuer, p_run, p_candidate, false)
            or g.written is distinct from g.xmin);
    update ringfence.gate g set written = g.xmin where g.resource = p_resource and g.written is distinct from g.xmin
$$;

-- confirm_registry makes the registry one of this run. On a new run of the server nobody has been
-- admitted yet, so the registry is complete and empty. If it was restored, or its table is new, or
-- a row of the resource was copied, it counts as lost: then revoke first lists every session.
create or replace function ringfence.confirm_registry(p_resource text) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    i record;
    v_copied boolean := exists (select from ringfence.mark m where m.resource = p_resource and m.written is distinct from m.xmin)
                     or exists (select from ringfence.gate g where g.resource = p_resource and g.written is distinct from g.xmin);
begin
    if ringfence.complete() and not v_copied then
        return;
    end if;
    perform from ringfence.installation for no key update;
    select n.*, n.written = n.xmin as original into i from ringfence.installation n;
    if i.original and not v_copied and i.registry is not null and i.registry not like ringfence.run() || '/%' then
        delete from ringfence.session;
        update ringfence.installation set registry = ringfence.registry();
    elsif not i.original or v_copied or i.registry is distinct from ringfence.registry() then
        update ringfence.installation set registry = null, server = case when i.original then i.server else '' end;
    end if;
    update ringfence.installation n set written = n.xmin where n.written is distinct from n.xmin;
end $$;

-- lose_registry and record complete a registry that counts as lost, by listing every session that
-- may have been in it. lose_registry locks it and returns whether it is lost; record lists the
-- sessions and completes it, in the same transaction.
create or replace function ringfence.lose_registry() returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform from ringfence.installation for no key update;
    return not ringfence.complete();
end $$;

create or replace function ringfence.record(p_pids integer[], p_backend_starts timestamptz[]) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    insert into ringfence.session (resource, token, issuer, pid, backend_start)
    select '*', 0, '', s.pid, s.backend_start from unnest(p_pids, p_backend_starts) as s(pid, backend_start) on conflict do nothing;
    update ringfence.installation set registry = ringfence.registry();
    update ringfence.installation n set written = n.xmin;
end $$;

-- is_mark returns whether this is the mark, confirmed, with its gate.
create or replace function ringfence.is_mark(p_resource text, p_token bigint, p_issuer text) returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    return exists (
        select from ringfence.mark m join ringfence.gate g on g.resource = m.resource
         where m.resource = p_resource and m.token = p_token and m.issuer = p_issuer and m.run = ringfence.run() and m.written = m.xmin
           and not m.rolled_back and (g.token, g.issuer, g.run) = (m.token, m.issuer, m.run) and g.written = g.xmin);
end $$;

-- others lists the sessions of a resource that are not under its mark, and those of an unknown
-- resource. It lists nothing unless the mark is the given one.
create or replace function ringfence.others(p_resource text, p_token bigint, p_issuer text)
returns table (pid integer, backend_start timestamptz)
language sql volatile security definer set search_path = pg_catalog, pg_temp as $$
    select s.pid, s.backend_start
      from ringfence.mark m join ringfence.session s on s.resource in (m.resource, '*')
     where m.resource = p_resource and m.token = p_token and m.issuer = p_issuer
       and (s.token <> m.token or s.issuer <> m.issuer)
$$;

-- forget removes the records of processes that the caller has seen to be gone: of one resource, or
-- of all when it is null.
create or replace function ringfence.forget(p_resource text, p_pids integer[], p_backend_starts timestamptz[]) returns void
language sql volatile security definer set search_path = pg_catalog, pg_temp as $$
    select set_config('synchronous_commit', 'off', true);
    delete from ringfence.session s using unnest(p_pids, p_backend_starts) as gone(pid, backend_start)
     where s.pid = gone.pid and s.backend_start = gone.backend_start and (p_resource is null or s.resource in (p_resource, '*'));
    delete from ringfence.leaving l using unnest(p_pids, p_backend_starts) as gone(pid, backend_start)
     where l.pid = gone.pid and l.backend_start = gone.backend_start
$$;

-- may_see returns whether the caller can see the start time of every role's backend. Without that,
-- live backends look gone.
create or replace function ringfence.may_see() returns boolean
language sql stable set search_path = pg_catalog, pg_temp as $$
    select pg_has_role(current_user, 'pg_read_all_stats', 'usage')
$$;

-- open opens the gate of the mark, if the mark still is this one: transactions may enter and
-- sessions be admitted. The caller has seen that no older session or transaction is left. It locks
-- the mark so that two calls do not meet at the gate's row: the second would leave a lock there,
-- which enter mistakes for a replacement.
create or replace function ringfence.open(p_resource text, p_token bigint, p_issuer text) returns void
language sql volatile security definer set search_path = pg_catalog, pg_temp as $$
    select from ringfence.mark m where m.resource = p_resource for no key update;
    update ringfence.gate g set open = true, older = '{}'
     where g.resource = p_resource and g.token = p_token and g.issuer = p_issuer and g.run = ringfence.run() and g.written = g.xmin and not g.open;
    update ringfence.gate g set written = g.xmin
     where g.resource = p_resource and g.token = p_token and g.issuer = p_issuer and g.open and g.written <> g.xmin
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
drop function if exists ringfence.revoke(text, bigint, text, boolean);
drop function if exists ringfence.revoke(text, bigint, text, boolean, integer);
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
begin
    perform ringfence.check_isolation();
    if not ringfence.may_see() then
        raise insufficient_privilege using message = format('role %I lacks pg_read_all_stats', current_user);
    end if;
    -- A crash loses nothing that this writes and that still counts: it ends every session, and a
    -- gate counts on one run of the server.
    perform set_config('synchronous_commit', 'off', true);
    blocked := '{}';
    -- Check the mark before listing who is inside: others could enter while the mark is another
    -- one.
    current := ringfence.is_mark(p_resource, p_token, p_issuer);
    if current and not ringfence.complete() then
        perform ringfence.list_everybody(p_newcomer);
    end if;
    -- Transactions first, sessions second: one that attaches is inside until the record of its
    -- session is visible.
    select i.pids, i.gids into v_inside, prepared from ringfence.inside(p_resource) i;
    -- List first, check second: a listed session was alive before, so one that is missing now is
    -- gone.
    select array_agg(o.pid), array_agg(o.backend_start) into v_listed_pids, v_listed_starts
      from ringfence.others(p_resource, p_token, p_issuer) o;
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
        perform ringfence.open(p_resource, p_token, p_issuer);
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
drop function if exists ringfence.release(integer, timestamptz);
drop function if exists ringfence.release(integer[], timestamptz[]);
drop function if exists ringfence.release(integer[], timestamptz[], boolean[]);
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
        perform ringfence.forget(null, v_gone, v_gone_starts);
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
    select ringfence.forget(null, p_pids, p_backend_starts);
    insert into ringfence.leaving (pid, backend_start)
    select s.pid, s.backend_start from unnest(p_pids, p_backend_starts) as s(pid, backend_start) on conflict do nothing
$$;

create or replace function ringfence.leaving() returns table (pid integer, backend_start timestamptz)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    select l.pid, l.backend_start from ringfence.leaving l
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
        perform ringfence.release(v_pids, v_starts, '{}', array_fill(true, array[cardinality(v_pids)]));
    end if;
end $$;

create or replace function ringfence.sessions() returns table (resource text, pid integer, backend_start timestamptz)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    select s.resource, s.pid, s.backend_start from ringfence.session s
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
    perform ringfence.release(v_pids, v_starts, '{}', '{}');
    perform ringfence.leave();
end $$;

-- marks reads the marks of these resources; of all when the list is null.
drop function if exists ringfence.marks(text[]);
create or replace function ringfence.marks(p_resources text[])
returns table (resource text, token bigint, issuer text, holder text, raised_at timestamptz, confirmed boolean, continued boolean,
               adoption text, candidate text, rolled_back boolean, sessions bigint)
language sql volatile security definer set search_path = pg_catalog, pg_temp as $$
    select m.resource, m.token, m.issuer, m.holder, m.raised_at,
           coalesce(m.run = here.run and m.written = m.xmin, false), coalesce(m.server = here.server and m.written = m.xmin, false), m.adoption,
           m.candidate, m.rolled_back, coalesce(recorded.sessions, 0)
      from (select ringfence.run() as run, ringfence.server() as server) here, ringfence.mark m
      left join (select s.resource, count(*) as sessions from ringfence.session s where p_resources is null group by s.resource) recorded
        on recorded.resource = m.resource
     where p_resources is null or m.resource = any (p_resources)
     order by m.resource
$$;

-- adopt starts a new issuer's count and records who did it. The caller then revokes the sessions of
-- the old count. A new value of the mark's adoption makes guards forget what they remember of the
-- mark.
drop function if exists ringfence.adopt(text, bigint, text, text, text);
create or replace function ringfence.adopt(
    p_resource text, p_token bigint, p_issuer text, p_holder text, p_by text,
    out token bigint, out issuer text, out holder text, out raised_at timestamptz, out confirmed boolean, out continued boolean, out adoption text)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_there boolean;
begin
    perform ringfence.check_isolation();
    perform ringfence.durable();
    perform from ringfence.mark m where m.resource = p_resource for update;
    v_there := found;
    select l.token, l.issuer, l.holder, l.raised_at, l.confirmed, l.continued, l.adoption
      into token, issuer, holder, raised_at, confirmed, continued, adoption from ringfence.look(p_resource) l;
    insert into ringfence.adoption (by_holder, resource, old_issuer, old_token, new_issuer, new_token)
    values (p_by, p_resource, nullif(issuer, ''), case when issuer <> '' then token end, p_issuer, p_token);
    perform ringfence.confirm_registry(p_resource);
    if not ringfence.write_mark(v_there, p_resource, p_token, p_issuer, p_holder, clock_timestamp(), gen_random_uuid()::text, '') then
        raise serialization_failure using message = format('the mark of %s was raised for the first time just now', p_resource),
            hint = 'adopt it again';
    end if;
end $$;

-- holds returns whether the caller's own session was admitted under this token. A leader learns
-- from it that there is a guard in between.
create or replace function ringfence.holds(p_resource text, p_token bigint) returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    return ringfence.registered(p_resource, p_token, null);
end $$;

-- registered returns whether the caller's own session is recorded under this token, and under this
-- issuer unless that is null.
create or replace function ringfence.registered(p_resource text, p_token bigint, p_issuer text) returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    return exists (select from ringfence.session s
                    where s.resource = p_resource and s.pid = pg_backend_pid() and s.token = p_token and s.issuer = coalesce(p_issuer, s.issuer)
                      and s.backend_start = (select a.backend_start from pg_stat_get_activity(pg_backend_pid()) a));
end $$;

-- Authorization: which role may claim which resource. The role is the one that a session has logged
-- in as; nothing that a client sets changes it.

-- authorizing returns whether authorization is on.
create or replace function ringfence.authorizing() returns boolean
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
    return (select i.authorize from ringfence.installation i);
end $$;

-- counts returns whether a row of ringfence.allowed still names the role and the database that it was
-- written for. The caller checks that the row is original.
create or replace function ringfence.counts(p_role name, p_role_id oid, p_database_id oid) returns boolean
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    select exists (select from pg_roles o where o.oid = p_role_id and o.rolname = p_role)
       and exists (select from pg_database d where d.oid = p_database_id and d.datname = current_database())
$$;

-- forbidden returns the first of these resources that a role may not claim, or null. Members of an
-- allowed role are allowed, also those that would have to SET ROLE.
create or replace function ringfence.forbidden(p_role oid, p_resources text[]) returns text
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    select wanted.resource
      from unnest(p_resources) with ordinality as wanted(resource, place)
     where not exists (
        select from ringfence.allowed a
         where a.written = a.xmin
           and wanted.resource ~ ('^' || replace(a.pattern, '*', '.*') || '$')
           and ringfence.counts(a.role, a.role_id, a.database_id)
           and p_role is not null and pg_has_role(p_role, a.role_id, 'member'))
     order by wanted.place
     limit 1
$$;

-- role_of returns the role that a backend's session has logged in as, or null if there is no such
-- backend. A session keeps its pid until it ends, so this is the role of the session that register
-- is to admit, or that session has ended.
create or replace function ringfence.role_of(p_pid integer) returns oid
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    return (select a.usesysid from pg_stat_get_activity(p_pid) a);
end $$;

-- check_allowed fails a transaction whose own role may not claim a resource.
create or replace function ringfence.check_allowed(p_resource text, p_token bigint) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    if ringfence.forbidden((select o.oid from pg_roles o where o.rolname = session_user), array[p_resource]) is not null then
        raise exception using errcode = 'RF010', schema = 'ringfence', table = p_resource, column = p_token::text,
            message = format('role "%s" may not claim "%s"', session_user, p_resource),
            detail = 'authorization is on in this store, and nobody has allowed it; nothing of this transaction was written',
            hint = format('log in as a role that may, or let an operator run: guard allow %s %s', session_user, p_resource);
    end if;
end $$;

-- allow lets a role claim the resources of a pattern, and forbid takes that back, for all patterns if
-- it is null. forbid returns how many rows it has removed. Only the schema's owner may call these
-- three.
create or replace function ringfence.allow(p_role name, p_pattern text) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_role oid := (select o.oid from pg_roles o where o.rolname = p_role);
begin
    if v_role is null then
        raise undefined_object using message = format('role "%s" does not exist', p_role);
    end if;
    perform ringfence.durable();
    insert into ringfence.allowed (role, pattern, role_id, database_id)
    values (p_role, p_pattern, v_role, (select d.oid from pg_database d where d.datname = current_database()))
        on conflict (role, pattern) do update
       set role_id = excluded.role_id, database_id = excluded.database_id, allowed_at = excluded.allowed_at, allowed_by = excluded.allowed_by;
    update ringfence.allowed a set written = a.xmin where a.role = p_role and a.pattern = p_pattern;
end $$;

create or replace function ringfence.forbid(p_role name, p_pattern text) returns integer
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_removed integer;
begin
    perform ringfence.durable();
    delete from ringfence.allowed a where a.role = p_role and a.pattern = coalesce(p_pattern, a.pattern);
    get diagnostics v_removed = row_count;
    return v_removed;
end $$;

-- authorize switches authorization on or off. An installation that was copied stays one.
create or replace function ringfence.authorize(p_on boolean) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_original boolean;
begin
    perform ringfence.durable();
    select i.written = i.xmin into v_original from ringfence.installation i for update;
    update ringfence.installation set authorize = p_on;
    if v_original then
        update ringfence.installation i set written = i.xmin;
    end if;
end $$;

-- attach admits the caller's own session. It enters, so that a raise finds this transaction, and
-- records the session, so that later a raise ends the session. The session's later transactions
-- need no check. It takes no lock that anybody waits for, so a transaction that attaches and stays
-- open delays nobody.
--
-- It also gives the session a number and writes it into the record, so that publish finds the record
-- without looking up when its backend started: see numbered. If a guard has registered the session
-- under this claim, its record gets the number too.
--
-- It returns false where a session cannot attach, and then the caller enters with each transaction:
-- the session is a pooler's (p_pid is the pid that the caller got at login), a superuser's (a guard
-- could not end it), or has an isolation level that hides what is committed meanwhile; or the
-- server allows prepared transactions, which survive their sessions and are found only by the locks
-- that enter takes.
drop function if exists ringfence.attach(bigint, text, bigint, text);
create or replace function ringfence.attach(
    p_pid bigint, p_resource text, p_token bigint, p_issuer text, p_candidate text default '') returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_start timestamptz := ringfence.own_start();
begin
    if v_start is null or p_pid <> pg_backend_pid() or current_setting('transaction_isolation') <> 'read committed'
       or exists (select from pg_roles o where o.rolname = session_user and o.rolsuper)
       or current_setting('max_prepared_transactions')::integer > 0 then
        return false;
    end if;
    perform ringfence.enter(p_resource, p_token, p_issuer, p_candidate);
    insert into ringfence.session as s (resource, token, issuer, pid, backend_start, attachment)
    values (p_resource, p_token, p_issuer, pg_backend_pid(), v_start, nextval('ringfence.attachment'))
        on conflict (resource, pid, backend_start) do update set attachment = excluded.attachment
     where s.token = excluded.token and s.issuer = excluded.issuer;
    perform set_config('ringfence._numbered', 'true', false);
    return true;
end $$;

-- Checkpoints. Each write needs the leader's claim and the version before.

-- publish writes a checkpoint in a transaction under the claim: the session is recorded under it,
-- or the transaction has entered. A setting that ends with the transaction, or with the savepoint
-- in which enter was called, detects a step that has ended its own transaction by mistake. Anybody
-- can make such a setting, so it proves nothing. The record of the session does, and where there is
-- none the transaction enters here.
--
-- The record must be of this backend, and not of an earlier one with the same pid. registered
-- compares when the backend started. To find that out Postgres copies the state of every backend
-- (pg_stat_get_activity), which costs more than the rest of publish. The number of an attachment
-- proves the same: only attach writes one into a record, and it draws the number in the backend that
-- the record is of. The sequence gives no number twice, and currval returns the last one that this
-- backend has drawn. So a record with that number is of this backend. One statement finds the record
-- and writes the checkpoint. If it writes nothing, the longer way below finds out why, or writes.
--
-- currval fails in a session that has drawn no number. attach says in the setting _numbered that
-- there is one; no resource has such a name. If anybody else makes the setting, publish fails.
create or replace function ringfence.publish(
    p_resource text, p_token bigint, p_issuer text, p_task text, p_version bigint, p_checkpoint json) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_under text := coalesce(current_setting('ringfence.' || p_resource, true), '');
    v_attached boolean := v_under = 'attached ' || p_token || ' ' || p_issuer;
    v_number bigint;
begin
    if not v_attached and v_under <> 'entered ' || p_token || ' ' || p_issuer then
        raise exception using errcode = 'invalid_transaction_termination',
            message = format('task %s: the transaction of the step was ended before its checkpoint was written', p_task),
            detail = 'a synchronous step must not COMMIT or ROLL BACK its own transaction; what it committed has landed, its checkpoint has not',
            hint = 'take COMMIT, ROLLBACK and the like out of the step';
    end if;
    if v_attached and p_version > 1 and current_setting('ringfence._numbered', true) = 'true' then
        v_number := currval('ringfence.attachment');
        update ringfence.checkpoint c
           set version = p_version, token = p_token, checkpoint = p_checkpoint, saved_at = clock_timestamp()
         where c.task = p_task and c.version = p_version - 1 and c.resource = p_resource
           and exists (select from ringfence.session s
                        where s.attachment = v_number and s.resource = p_resource and s.token = p_token and s.issuer = p_issuer
                          and s.pid = pg_backend_pid());
        if found then
            return;
        end if;
    end if;
    if not ringfence.registered(p_resource, p_token, p_issuer) then
        perform ringfence.enter(p_resource, p_token, p_issuer);
    end if;
    perform ringfence.save(p_resource, p_token, p_task, p_version, p_checkpoint);
end $$;

-- save writes a checkpoint after the version before it. It checks no claim: only publish and
-- enter_and_publish call it, which do.
create or replace function ringfence.save(p_resource text, p_token bigint, p_task text, p_version bigint, p_checkpoint json) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    if p_version = 1 then
        insert into ringfence.checkpoint (task, resource, version, token, checkpoint)
        values (p_task, p_resource, 1, p_token, p_checkpoint) on conflict do nothing;
    else
        update ringfence.checkpoint c
           set version = p_version, token = p_token, checkpoint = p_checkpoint, saved_at = clock_timestamp()
         where c.task = p_task and c.version = p_version - 1 and c.resource = p_resource;
    end if;
    if not found then
        perform ringfence.conflict(p_resource, p_task, p_version);
    end if;
end $$;

-- conflict fails a publish with the reason.
create or replace function ringfence.conflict(p_resource text, p_task text, p_version bigint) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_version bigint;
begin
    perform ringfence.check_owner(p_resource, p_task);
    select t.version into v_version from ringfence.checkpoint t where t.task = p_task;
    raise exception using errcode = 'RF008', schema = 'ringfence', table = p_resource,
        message = format('task %s is at version %s, so version %s cannot follow', p_task, coalesce(v_version, 0), p_version),
        detail = 'nothing of this transaction was written',
        hint = 'read the checkpoint again and go on from it';
end $$;

-- check_owner fails if a task belongs to another resource.
create or replace function ringfence.check_owner(p_resource text, p_task text) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_owner text := (select t.resource from ringfence.checkpoint t where t.task = p_task);
begin
    if v_owner <> p_resource then
        raise exception using errcode = 'RF009', schema = 'ringfence', table = p_resource,
            message = format('task %s belongs to resource "%s", not to "%s"', p_task, v_owner, p_resource),
            detail = 'nothing of this transaction was written',
            hint = 'give tasks of different resources different names';
    end if;
end $$;

-- enter_and_publish is publish as a separate transaction, durable when the statement returns. It
-- enters first, so it need not find out whether the session is recorded.
drop function if exists ringfence.enter_and_publish(text, bigint, text, text, bigint, json);
create or replace function ringfence.enter_and_publish(
    p_resource text, p_token bigint, p_issuer text, p_task text, p_version bigint, p_checkpoint json, p_candidate text default '')
returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform ringfence.durable();
    perform ringfence.enter(p_resource, p_token, p_issuer, p_candidate);
    perform ringfence.save(p_resource, p_token, p_task, p_version, p_checkpoint);
end $$;

-- enter_and_forget deletes a checkpoint, as a separate transaction that is durable when the statement
-- returns. It is no error if there is none.
drop function if exists ringfence.enter_and_forget(text, bigint, text, text);
create or replace function ringfence.enter_and_forget(
    p_resource text, p_token bigint, p_issuer text, p_task text, p_candidate text default '') returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform ringfence.durable();
    perform ringfence.enter(p_resource, p_token, p_issuer, p_candidate);
    delete from ringfence.checkpoint c where c.task = p_task and c.resource = p_resource;
    if not found then
        perform ringfence.check_owner(p_resource, p_task);
    end if;
end $$;

-- take reads a checkpoint under a claim. It returns version 0 when there is none, and no checkpoint
-- when the version is p_have.
drop function if exists ringfence.take(text, bigint, text, text, bigint);
create or replace function ringfence.take(
    p_resource text, p_token bigint, p_issuer text, p_task text, p_have bigint, p_candidate text default '',
    out version bigint, out resource text, out checkpoint json)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform ringfence.enter(p_resource, p_token, p_issuer, p_candidate);
    select c.version, c.resource, case when c.version <> p_have then c.checkpoint end
      into version, resource, checkpoint
      from ringfence.checkpoint c where c.task = p_task;
    version := coalesce(version, 0);
end $$;

-- checkpoints reads the checkpoints of these tasks; of all tasks when the list is null.
create or replace function ringfence.checkpoints(p_tasks text[]) returns table (checkpoint json)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    select c.checkpoint from ringfence.checkpoint c where p_tasks is null or c.task = any (p_tasks) order by c.task
$$;

-- Sealed tables: the trigger that guard protect puts on a table. Its argument is the resource.

-- seal lets a statement write only in a session that is recorded under the resource's mark, or in a
-- transaction that has entered. It runs before each statement, and never for a row.
--
-- A session's record may be as old as the transaction's snapshot, and still proves that no newer
-- session is ready: a record is removed only when its session is gone, or is idle and stays so, and
-- this one is running a statement. Nor can it be another session's: it has the pid and the start of
-- this backend. So the mark is compared only to refuse a deposed session as soon as the mark is
-- raised, and to refuse what was restored from a dump (see written).
--
-- Finding out when the own backend started copies the state of every backend, so each backend does
-- it once, and keeps the answer as its own last value of a sequence. A client may take it away
-- (DISCARD SEQUENCES) and cannot set another one. No setting of the session is believed.
--
-- Where the server allows prepared transactions, the transactions of a recorded session enter, too:
-- a prepared one outlives its session, and only the locks of enter find it.
create or replace function ringfence.seal() returns trigger
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_resource text := tg_argv[0];
    v_birth bigint;
    s record;
begin
    begin
        v_birth := currval('ringfence.birth');
    exception when object_not_in_prerequisite_state then
        v_birth := setval('ringfence.birth', (extract(epoch from ringfence.own_start()) * 1000000)::bigint);
    end;
    select r.token, r.issuer, m.token as mark, m.issuer as mark_issuer, m.written = m.xmin as original into s
      from ringfence.session r left join ringfence.mark m on m.resource = r.resource
     where r.resource = v_resource and r.pid = pg_backend_pid()
       and r.backend_start = timestamptz 'epoch' + v_birth * interval '1 microsecond';
    if not found then
        perform ringfence.enter_as_claimed(v_resource, format('%I.%I', tg_table_schema, tg_table_name));
    elsif (s.token, s.issuer, true) is distinct from (s.mark, s.mark_issuer, s.original) then
        perform ringfence.refuse(v_resource, s.token, s.issuer, s.mark, s.mark_issuer);
    elsif current_setting('max_prepared_transactions')::integer > 0 then
        perform ringfence.enter(v_resource, s.token, s.issuer);
    end if;
    return null;
end $$;

-- enter_as_claimed enters under the claim that enter or attach has left in a setting. Anybody can
-- make such a setting, as anybody can call enter: it is only the claim, and enter checks it. A
-- transaction that has entered does so again with each statement. That costs no further lock, and is
-- right after a rollback to a savepoint, which takes away the locks of what came after it.
create or replace function ringfence.enter_as_claimed(p_resource text, p_table text) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_claim text[] := regexp_match(current_setting('ringfence.' || p_resource, true), '^(entered|attached) ([0-9]{1,19}) (.+)$');
begin
    if v_claim is null then
        raise exception using errcode = 'RF002', schema = 'ringfence', table = p_resource,
            message = format('no token: the table %s takes writes only under "%s"', p_table, p_resource),
            detail = format('this session is not admitted under "%s", and the transaction has not entered; nothing of it was written', p_resource),
            hint = format('connect through a guard with options=''-c fence.%s=<token>'', or begin the transaction with ringfence.enter', p_resource);
    end if;
    perform ringfence.enter(p_resource, v_claim[2]::bigint, v_claim[3]);
end $$;

-- sealed_tables lists what ringfence.sealed has, for guard check.
create or replace function ringfence.sealed_tables()
returns table (schema_name name, table_name name, resource text, sealed_at timestamptz, sealed_by name)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    select s.schema_name, s.table_name, s.resource, s.sealed_at, s.sealed_by from ringfence.sealed s
$$;

-- What the guard's role needs, and nothing more. The role is no superuser and owns nothing here.
revoke all on schema ringfence from public;
revoke all on all tables in schema ringfence from public;
revoke all on all sequences in schema ringfence from public;
revoke all on all functions in schema ringfence from public;

grant pg_signal_backend, pg_read_all_stats to "guard_role";
grant usage on schema ringfence to "guard_role";
grant execute on all functions in schema ringfence to "guard_role";
revoke execute on function ringfence.allow(name, text), ringfence.forbid(name, text), ringfence.authorize(boolean) from "guard_role";

-- What every role may call: whether its own session is admitted, and which session of which server
-- it is.
grant usage on schema ringfence to public;
grant execute on function ringfence.holds(text, bigint) to public;
grant execute on function ringfence.leg(), ringfence.own_start(), ringfence.run() to public;

-- Every role may put a transaction under a token: enter only reads the gate.
grant execute on function ringfence.enter(text, bigint, text, text) to public;
grant execute on function ringfence.is_open(text, bigint, text, text) to public;
grant execute on function ringfence.attach(bigint, text, bigint, text, text) to public;

-- Only the very first install, and adopt, vouch for missing marks. The schema ringfence_installed
-- records that there was a first install: after ringfence itself was dropped, sessions may be alive
-- that the new tables do not list.
do $$
declare
    v_known boolean := to_regnamespace('ringfence_installed') is not null;
    v_original boolean := (select i.written = i.xmin from ringfence.installation i);
begin
    create schema if not exists ringfence_installed;
    comment on schema ringfence_installed is 'Ringfence was installed in this database. Drop it only together with the schema ringfence, and when no client is connected';
    insert into ringfence.installation (version, server, registry)
    values (8, case when v_known then '' else ringfence.server() end, case when not v_known then ringfence.registry() end)
        on conflict (only_row) do update
       set version = excluded.version, installed_at = clock_timestamp(),
           server = case when v_original then ringfence.installation.server else '' end,
           registry = case when v_original then ringfence.installation.registry end;
    update ringfence.installation set written = xmin;
end $$;

commit;
