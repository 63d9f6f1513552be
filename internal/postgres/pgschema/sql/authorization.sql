-- Authorization: which role may claim which resource. The role is the one that a session has logged
-- in as; nothing that a client sets changes it.

-- authorizing returns whether authorization is on. It is the switch: authorize replaces it. Every
-- transaction that enters asks it, and a row of a table would cost it nearly as much as the look at
-- the gate does. Postgres plans a statement again when a function in it has been replaced, and a
-- backend learns that with the next lock of a table that it takes. So who enters after authorize has
-- committed finds the new one, however old its snapshot is.
do $$
begin
    if to_regprocedure('ringfence_private.authorizing()') is null then
        create function ringfence_private.authorizing() returns boolean language sql stable as 'select false';
    end if;
end $$;

-- counts returns whether a row of ringfence_private.allowed still names the role and the database that it was
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
        select from ringfence_private.allowed a
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
            detail = 'authorization is on in this store, and the role is not on the list for this resource; nothing of this transaction was written',
            hint = format('retrying does not help: log in as a role that may, or let an operator run: guard allow %s %s',
                case when session_user ~ '^[[:alnum:]_.-]+$' then session_user else '''' || replace(session_user, '''', '''' || chr(92) || '''''') || '''' end, p_resource);
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
    insert into ringfence_private.allowed (role, pattern, role_id, database_id)
    values (p_role, p_pattern, v_role, (select d.oid from pg_database d where d.datname = current_database()))
        on conflict (role, pattern) do update
       set role_id = excluded.role_id, database_id = excluded.database_id, allowed_at = excluded.allowed_at, allowed_by = excluded.allowed_by;
    update ringfence_private.allowed a set written = a.xmin where a.role = p_role and a.pattern = p_pattern;
end $$;

create or replace function ringfence.forbid(p_role name, p_pattern text) returns integer
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_removed integer;
begin
    perform ringfence.durable();
    delete from ringfence_private.allowed a where a.role = p_role and a.pattern = coalesce(p_pattern, a.pattern);
    get diagnostics v_removed = row_count;
    return v_removed;
end $$;

-- authorize switches authorization on or off.
create or replace function ringfence.authorize(p_on boolean) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform ringfence.durable();
    lock table ringfence_private.allowed in share row exclusive mode;
    execute format('create or replace function ringfence_private.authorizing() returns boolean language sql stable as %L', 'select ' || p_on);
end $$;
