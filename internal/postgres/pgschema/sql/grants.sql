-- What every role may call: which version this is, whether its own session is admitted, and which session of which
-- server it is. Every role may also put a transaction under a token: enter only reads the gate.
revoke all on all tables in schema ringfence_private from public;
revoke all on all sequences in schema ringfence_private from public;
revoke all on all functions in schema ringfence from public;
revoke all on type ringfence.term, ringfence.begun from public; -- a table of them would depend on them

grant usage on schema ringfence to public;
do $$
declare
    f regprocedure;
begin
    for f in select p.oid from pg_proc p where p.pronamespace = 'ringfence'::regnamespace and p.proname = any ({{of everybody}}) loop
        execute format('grant execute on function %s to public', f);
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
              where n.nspname = 'ringfence' and p.proowner <> n.nspowner loop
        execute format('alter function %s owner to %s', f.name, f.owner);
    end loop;
end $$;
