-- What the guard's role needs, and nothing more. The role is no superuser and owns nothing here. Only those who hand out
-- terms know that a claim leads.
set local ringfence._role = {{role literal}};
do $$
declare
    f record;
begin
    for f in select p.oid::regprocedure as name, p.proname = any ({{not of guards}}) as others, exists (
                    select from aclexplode(p.proacl) a join pg_roles r on r.oid = a.grantee where r.rolname = current_setting('ringfence._role')) as granted
               from pg_proc p where p.pronamespace = 'ringfence'::regnamespace loop
        if f.granted = f.others then
            execute format(case when f.others then 'revoke execute on function %s from %I' else 'grant execute on function %s to %I' end,
                           f.name, current_setting('ringfence._role'));
        end if;
    end loop;
end $$;
