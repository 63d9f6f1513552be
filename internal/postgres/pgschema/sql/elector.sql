-- What a role needs that takes part in elections as a coordinator's client (postgres://), or asks who leads.
set local ringfence._role = {{role literal}};
do $$
declare
    f regprocedure;
begin
    for f in select p.oid from pg_proc p where p.pronamespace = 'ringfence'::regnamespace and p.proname = any ({{of elections}}) loop
        execute format('grant execute on function %s to %I', f, current_setting('ringfence._role'));
    end loop;
end $$;
grant execute on function ringfence.free(text[]), ringfence.held(text[]) to {{role}};
