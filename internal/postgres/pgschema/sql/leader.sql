-- What the role of a program that may lead needs, and nothing more.
set local ringfence._role = {{role literal}};
do $$
declare
    f regprocedure;
begin
    for f in select p.oid from pg_proc p
              where p.pronamespace = 'ringfence'::regnamespace and p.proname = any ({{of leaders}}) and not exists (
                    select from aclexplode(p.proacl) a join pg_roles r on r.oid = a.grantee where r.rolname = current_setting('ringfence._role')) loop
        execute format('grant execute on function %s to %I', f, current_setting('ringfence._role'));
    end loop;
end $$;
