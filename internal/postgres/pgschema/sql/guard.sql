-- What the guard's role needs, and nothing more. The role is no superuser and owns nothing here.
grant execute on all functions in schema ringfence to {{role}};
-- Only those who hand out terms know that a claim leads.
set local ringfence._role = {{role literal}};
do $$
declare
    f regprocedure;
begin
    for f in select p.oid from pg_proc p where p.pronamespace = 'ringfence'::regnamespace and p.proname = any ({{not of guards}}) loop
        execute format('revoke execute on function %s from %I', f, current_setting('ringfence._role'));
    end loop;
end $$;
