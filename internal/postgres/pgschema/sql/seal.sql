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
        v_birth := currval('ringfence_private.birth');
    exception when object_not_in_prerequisite_state then
        v_birth := setval('ringfence_private.birth', (extract(epoch from ringfence.own_start()) * 1000000)::bigint);
    end;
    select r.token, r.issuer, m.token as mark, m.issuer as mark_issuer, m.written = m.xmin as original into s
      from ringfence_private.session r left join ringfence_private.mark m on m.resource = r.resource
     where r.resource = v_resource and r.pid = pg_backend_pid()
       and r.backend_start = timestamptz 'epoch' + v_birth * interval '1 microsecond';
    if not found then
        perform ringfence.enter_as_claimed(v_resource, format('%I.%I', tg_table_schema, tg_table_name));
    elsif (s.token, s.issuer, true) is distinct from (s.mark, s.mark_issuer, s.original) then
        perform ringfence.refuse(v_resource, s.token, s.issuer, ''::text);
    elsif current_setting('max_prepared_transactions')::integer > 0 then
        perform ringfence.enter(v_resource, s.token, s.issuer, ''::text);
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
    perform ringfence.enter(p_resource, v_claim[2]::bigint, v_claim[3], ''::text);
end $$;

-- sealed_tables lists what ringfence_private.sealed has, for guard check.
create or replace function ringfence.sealed_tables()
returns table (schema_name name, table_name name, resource text, sealed_at timestamptz, sealed_by name)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    select s.schema_name, s.table_name, s.resource, s.sealed_at, s.sealed_by from ringfence_private.sealed s
$$;
