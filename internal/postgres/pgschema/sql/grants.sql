-- What every role may call: which version this is, whether its own session is admitted, and which session of which
-- server it is. Every role may also put a transaction under a token: enter only reads the gate.
revoke all on all tables in schema ringfence_private from public;
revoke all on all sequences in schema ringfence_private from public;
revoke all on type ringfence.term, ringfence.begun from public; -- a table of them would depend on them

-- Privileges are granted and revoked where they differ: from Postgres 18 on GRANT locks a function, and a stranger can hold that up.
grant usage on schema ringfence to public;
do $$
declare
    f record;
begin
    for f in select p.oid::regprocedure as name, p.proname = any ({{of everybody}}) as everybodys, p.proacl is null or exists (
                    select from aclexplode(p.proacl) a where a.grantee = 0) as granted
               from pg_proc p where p.pronamespace = 'ringfence'::regnamespace loop
        if f.everybodys and not f.granted then
            execute format('grant execute on function %s to public', f.name);
        elsif f.granted and not f.everybodys then
            execute format('revoke execute on function %s from public', f.name);
        end if;
    end loop;
end $$;

-- A function that is new belongs to the role that installs, such as an operator's. All are to belong to the owner of
-- the schema, as the tables do.
do $$
declare
    f record;
begin
    for f in select p.oid::regprocedure as name, n.nspowner::regrole as owner
               from pg_proc p join pg_namespace n on n.oid = p.pronamespace
              where n.nspname in ('ringfence', 'ringfence_private') and p.proowner <> n.nspowner loop
        execute format('alter function %s owner to %s', f.name, f.owner);
    end loop;
end $$;
