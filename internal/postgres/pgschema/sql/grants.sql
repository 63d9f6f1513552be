-- What every role may call: which version this is, whether its own session is admitted, and which session of which
-- server it is. Every role may also put a transaction under a token: enter only reads the gate.
revoke all on all tables in schema ringfence_private from public;
revoke all on all sequences in schema ringfence_private from public;
revoke all on all functions in schema ringfence from public;
revoke all on type ringfence.term, ringfence.begun from public; -- a table of them would depend on them

grant usage on schema ringfence to public;
grant execute on function ringfence.version(), ringfence.holds(text, bigint), ringfence.leg(), ringfence.own_start(), ringfence.run() to public;
grant execute on function ringfence.enter(text, bigint, text, text), ringfence.enter(text) to public;
grant execute on function ringfence.is_open(text, bigint, text, text) to public;
grant execute on function ringfence.attach(bigint, text, bigint, text, text) to public;

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
