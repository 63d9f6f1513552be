begin;
set local client_min_messages = warning;
set local search_path = pg_catalog, pg_temp;
select pg_advisory_xact_lock(1919512167);

-- Version 1: marks, sessions, the audit of adoptions.
-- Everything here is idempotent; a later version is a file of its own that runs after this one.

create schema if not exists ringfence;
comment on schema ringfence is 'Ringfence: who may write. See guard install --print';

-- One row. server is the system identifier and timeline on which the marks were last vouched for by an operator:
-- on another one (a failover, a restore) a missing mark does not mean that there never was one.
create table if not exists ringfence.installation (
    only_row     boolean primary key default true check (only_row),
    version      integer not null,
    server       text not null,
    installed_at timestamptz not null default clock_timestamp()
);

-- The mark: the highest token accepted for a resource. Logged, so that it survives whatever the data survives.
create table if not exists ringfence.mark (
    resource  text primary key check (resource ~ '^[a-z][a-z0-9_]{0,47}$'),
    token     bigint not null check (token >= 0),
    issuer    text not null,
    holder    text not null,
    raised_at timestamptz not null default clock_timestamp(),
    server    text not null
);

-- The sessions admitted under a mark. Unlogged: a crash that empties it has ended every session that it listed.
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

-- Which operator started which issuer's count, and what it was before.
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

-- The functions of a guard. They are replaced by every install, so they always fit the program that installed them.
-- SECURITY DEFINER functions touch the tables of this schema and nothing else; what needs a privilege of the server
-- (reading pg_stat_activity, ending a backend) runs with the caller's own.

-- server is the identity of the database as marks remember it: it changes with a failover or a restore.
create or replace function ringfence.server() returns text
language sql volatile security definer set search_path = pg_catalog, pg_temp as $$
    select system_identifier || '/' || substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8) from pg_control_system()
$$;

-- version is the schema's.
create or replace function ringfence.version() returns integer
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    select version from ringfence.installation
$$;

-- check_isolation: each statement below has to see what was committed before it started, also after waiting for a lock.
create or replace function ringfence.check_isolation() returns void
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception 'ringfence functions need READ COMMITTED, this transaction is %', current_setting('transaction_isolation');
    end if;
end $$;

-- register admits a session, or says what is missing. It holds the marks locked against raise until it has committed,
-- so a raise waits for it and then sees the session in its list. The lock is one that registrations wait for, too: under
-- a shared one they overtake a waiting raise, and many of them keep it waiting for ever.
-- step is one of: admitted, raise, revoke, stale, issuer. The other columns are the mark that the step is about.
create or replace function ringfence.register(
    p_pid integer, p_backend_start timestamptz, p_resources text[], p_tokens bigint[], p_issuer text,
    out step text, out resource text, out token bigint, out issuer text, out holder text,
    out raised_at timestamptz, out confirmed boolean)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_server text := ringfence.server();
    v_vouched boolean;
    c record;
begin
    perform ringfence.check_isolation();
    perform set_config('synchronous_commit', 'off', true); -- a session that a crash forgets is a session that it ended
    select i.server = v_server into v_vouched from ringfence.installation i;
    perform 1 from ringfence.mark m where m.resource = any (p_resources) order by m.resource for no key update;

    select w.step, w.resource, coalesce(w.token, 0), coalesce(w.issuer, ''), coalesce(w.holder, ''), w.raised_at, w.confirmed
      into step, resource, token, issuer, holder, raised_at, confirmed
      from (
        select case
                 when m.issuer <> p_issuer then 'issuer'
                 when m.token > wanted.token then 'stale'
                 when m.token is null or m.token < wanted.token or m.server <> v_server then 'raise'
                 when exists (select from ringfence.session s where s.resource = m.resource
                                and (s.token <> m.token or s.issuer <> m.issuer)) then 'revoke'
                 else 'admitted'
               end as step,
               wanted.place, wanted.resource, m.token, m.issuer, m.holder, m.raised_at,
               case when m.resource is null then v_vouched else m.server = v_server end as confirmed
          from unnest(p_resources, p_tokens) with ordinality as wanted(resource, token, place)
          left join ringfence.mark m on m.resource = wanted.resource
      ) w
     order by array_position(array['issuer', 'stale', 'raise', 'revoke', 'admitted'], w.step), w.place
     limit 1;

    if step = 'admitted' then
        insert into ringfence.session (resource, token, issuer, pid, backend_start)
        select wanted.resource, wanted.token, p_issuer, p_pid, p_backend_start
          from unnest(p_resources, p_tokens) as wanted(resource, token)
            on conflict do nothing;
    end if;
end $$;

-- raise lifts a mark, never lowers it, and confirms it for this server. It is durable when the statement returns,
-- whatever the defaults of the role or the database are.
-- step is one of: raised, stale, issuer. The other columns are the mark as it was (token 0: there was none).
create or replace function ringfence.raise(
    p_resource text, p_token bigint, p_issuer text, p_holder text,
    out step text, out token bigint, out issuer text, out holder text, out raised_at timestamptz, out confirmed boolean)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_server text := ringfence.server();
    v_mark ringfence.mark;
begin
    perform ringfence.check_isolation();
    if current_setting('synchronous_commit') not in ('on', 'remote_apply') then
        perform set_config('synchronous_commit', 'on', true);
    end if;
    insert into ringfence.mark (resource, token, issuer, holder, server)
    values (p_resource, 0, p_issuer, '', v_server) on conflict do nothing;
    select * into strict v_mark from ringfence.mark m where m.resource = p_resource for update;

    token := v_mark.token; issuer := v_mark.issuer; holder := v_mark.holder;
    raised_at := v_mark.raised_at; confirmed := v_mark.server = v_server;
    if v_mark.issuer <> p_issuer then
        step := 'issuer';
    elsif v_mark.token > p_token then
        step := 'stale';
    else
        step := 'raised';
        update ringfence.mark m
           set token = p_token, server = v_server,
               holder = case when v_mark.token < p_token then p_holder else v_mark.holder end,
               raised_at = case when v_mark.token < p_token then clock_timestamp() else v_mark.raised_at end
         where m.resource = p_resource and (m.token, m.server) is distinct from (p_token, v_server);
    end if;
end $$;

-- others lists the sessions of a resource that are not under its mark; nothing unless the mark is the one given.
create or replace function ringfence.others(p_resource text, p_token bigint, p_issuer text)
returns table (pid integer, backend_start timestamptz)
language sql volatile security definer set search_path = pg_catalog, pg_temp as $$
    select s.pid, s.backend_start
      from ringfence.mark m join ringfence.session s on s.resource = m.resource
     where m.resource = p_resource and m.token = p_token and m.issuer = p_issuer
       and (s.token <> m.token or s.issuer <> m.issuer)
$$;

-- forget removes the records of processes that the caller has seen to be gone, of one resource or (null) of all.
create or replace function ringfence.forget(p_resource text, p_pids integer[], p_backend_starts timestamptz[]) returns void
language sql volatile security definer set search_path = pg_catalog, pg_temp as $$
    select set_config('synchronous_commit', 'off', true);
    delete from ringfence.session s using unnest(p_pids, p_backend_starts) as gone(pid, backend_start)
     where s.pid = gone.pid and s.backend_start = gone.backend_start and (p_resource is null or s.resource = p_resource)
$$;

-- may_see tells whether the caller sees the start time of every role's backend; without it the living look gone.
create or replace function ringfence.may_see() returns boolean
language sql stable set search_path = pg_catalog, pg_temp as $$
    select pg_has_role(current_user, 'pg_read_all_stats', 'usage')
$$;

-- revoke looks for sessions that are not under the mark, forgets those that are gone, and says who is left; it signals
-- them when p_signal is set. Call it again until nobody remains: pg_stat_activity is frozen within a transaction, so one
-- call cannot wait. blocked names the roles of sessions that the caller may not end.
create or replace function ringfence.revoke(
    p_resource text, p_token bigint, p_issuer text, p_signal boolean,
    out current boolean, out gone integer, out remaining integer[], out blocked text[])
language plpgsql volatile security invoker set search_path = pg_catalog, pg_temp as $$
declare
    v_listed_pids integer[];
    v_listed_starts timestamptz[];
    v_pids integer[] := '{}';
    v_starts timestamptz[] := '{}';
    s record;
begin
    perform ringfence.check_isolation();
    if not ringfence.may_see() then
        raise insufficient_privilege using message = format('role %I lacks pg_read_all_stats', current_user);
    end if;
    remaining := '{}'; blocked := '{}';
    -- List first, look second: what is listed was alive before, so what is not seen then is gone.
    select array_agg(o.pid), array_agg(o.backend_start) into v_listed_pids, v_listed_starts
      from ringfence.others(p_resource, p_token, p_issuer) o;
    -- Asked after the list, which is empty when the mark is another one: that must not pass for nobody is left.
    select exists (select from ringfence.marks(array[p_resource]) m where m.token = p_token and m.issuer = p_issuer) into current;
    perform pg_stat_clear_snapshot();
    for s in
        select o.pid, o.backend_start, a.pid is not null as alive, a.usename
          from unnest(v_listed_pids, v_listed_starts) as o(pid, backend_start)
          left join pg_stat_activity a on a.pid = o.pid and a.backend_start = o.backend_start
    loop
        if not s.alive then
            v_pids := v_pids || s.pid; v_starts := v_starts || s.backend_start;
            continue;
        end if;
        remaining := remaining || s.pid;
        continue when not p_signal;
        begin
            perform pg_terminate_backend(s.pid);
        exception when insufficient_privilege then
            blocked := blocked || s.usename::text;
        end;
    end loop;
    gone := cardinality(v_pids);
    if gone > 0 then
        perform ringfence.forget(p_resource, v_pids, v_starts);
    end if;
end $$;

-- release forgets a session unless it is alive. sweep forgets all that are not.
create or replace function ringfence.release(p_pid integer, p_backend_start timestamptz) returns void
language plpgsql volatile security invoker set search_path = pg_catalog, pg_temp as $$
begin
    perform pg_stat_clear_snapshot();
    if ringfence.may_see() and not exists (
        select from pg_stat_get_activity(p_pid) a where a.pid = p_pid and a.backend_start = p_backend_start) then
        perform ringfence.forget(null, array[p_pid], array[p_backend_start]);
    end if;
end $$;

create or replace function ringfence.sessions() returns table (resource text, pid integer, backend_start timestamptz)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    select s.resource, s.pid, s.backend_start from ringfence.session s
$$;

create or replace function ringfence.sweep() returns void
language plpgsql volatile security invoker set search_path = pg_catalog, pg_temp as $$
declare
    v_listed_pids integer[];
    v_listed_starts timestamptz[];
    v_pids integer[];
    v_starts timestamptz[];
begin
    perform ringfence.check_isolation();
    if not ringfence.may_see() then
        return;
    end if;
    -- List first, look second, as in revoke: a session that registers in between must not look gone.
    select array_agg(s.pid), array_agg(s.backend_start) into v_listed_pids, v_listed_starts from ringfence.sessions() s;
    perform pg_stat_clear_snapshot();
    select array_agg(s.pid), array_agg(s.backend_start) into v_pids, v_starts
      from unnest(v_listed_pids, v_listed_starts) as s(pid, backend_start)
     where not exists (select from pg_stat_activity a where a.pid = s.pid and a.backend_start = s.backend_start);
    if v_pids is not null then
        perform ringfence.forget(null, v_pids, v_starts);
    end if;
end $$;

-- marks reads the marks of these resources, or of all when the list is null.
create or replace function ringfence.marks(p_resources text[])
returns table (resource text, token bigint, issuer text, holder text, raised_at timestamptz, confirmed boolean, sessions bigint)
language sql volatile security definer set search_path = pg_catalog, pg_temp as $$
    select m.resource, m.token, m.issuer, m.holder, m.raised_at, m.server = ringfence.server(),
           case when p_resources is null then (select count(*) from ringfence.session s where s.resource = m.resource) else 0 end
      from ringfence.mark m
     where p_resources is null or m.resource = any (p_resources)
     order by m.resource
$$;

-- adopt starts a new issuer's count and records who did it. The caller then revokes the sessions of the old count.
create or replace function ringfence.adopt(
    p_resource text, p_token bigint, p_issuer text, p_holder text, p_by text,
    out token bigint, out issuer text, out holder text, out raised_at timestamptz, out confirmed boolean)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_server text := ringfence.server();
begin
    perform ringfence.check_isolation();
    if current_setting('synchronous_commit') not in ('on', 'remote_apply') then
        perform set_config('synchronous_commit', 'on', true);
    end if;
    select m.token, m.issuer, m.holder, m.raised_at, m.server = v_server
      into token, issuer, holder, raised_at, confirmed
      from ringfence.mark m where m.resource = p_resource for update;
    insert into ringfence.adoption (by_holder, resource, old_issuer, old_token, new_issuer, new_token)
    values (p_by, p_resource, issuer, token, p_issuer, p_token);
    insert into ringfence.mark as m (resource, token, issuer, holder, server)
    values (p_resource, p_token, p_issuer, p_holder, v_server)
        on conflict on constraint mark_pkey do update
       set token = p_token, issuer = p_issuer, holder = p_holder, server = v_server, raised_at = clock_timestamp();
    token := coalesce(token, 0); issuer := coalesce(issuer, ''); holder := coalesce(holder, '');
    confirmed := coalesce(confirmed, true);
end $$;

-- holds tells a session whether it was admitted under this token: how a leader knows that a guard is in between.
create or replace function ringfence.holds(p_resource text, p_token bigint) returns boolean
language sql volatile security definer set search_path = pg_catalog, pg_temp as $$
    select exists (select from ringfence.session s where s.resource = p_resource and s.token = p_token and s.pid = pg_backend_pid())
$$;

-- What the guard's role needs, and nothing more. It is no superuser and owns nothing here.
revoke all on schema ringfence from public;
revoke all on all tables in schema ringfence from public;
revoke all on all functions in schema ringfence from public;

grant pg_signal_backend, pg_read_all_stats to "guard_role";
grant usage on schema ringfence to "guard_role";
grant execute on all functions in schema ringfence to "guard_role";

-- What everybody may ask: whether the own session is admitted.
grant usage on schema ringfence to public;
grant execute on function ringfence.holds(text, bigint) to public;

-- A repeated install keeps the server: only the first one, and adopt, vouch for marks.
insert into ringfence.installation (version, server) values (1, ringfence.server())
    on conflict (only_row) do update set version = excluded.version, installed_at = clock_timestamp();

commit;
