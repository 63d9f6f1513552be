-- What the lab adds to Postgres to record every step of the fence in a table of its own. So each step has a
-- place in the order of commits, as each write has.

-- Which backend wrote: one that starts later never has the same name.
create function lab_backend(p_pid integer, p_start timestamptz) returns text language sql stable as $$
	select p_pid || '@' || extract(epoch from p_start)::text
$$;
create function lab_backend() returns text language sql stable as $$
	select public.lab_backend(a.pid, a.backend_start) from pg_stat_get_activity(pg_backend_pid()) a
$$;
alter table ledger add column backend text default lab_backend();

create table step (
	id       bigserial primary key, -- the order within a transaction
	what     text not null,         -- history.Do
	resource text not null default '',
	token    bigint not null default 0,
	issuer   text not null default '',
	backend  text not null default '',
	original boolean not null default true, -- false: a row that was restored
	run      text not null,         -- of the server: that of the row of a gate, or the present one
	xid      text not null default pg_current_xact_id()::text
);

-- A row of mark, gate or installation is original if it was written in place (written = xmin). Each is
-- written twice in its transaction, and original only after the second time. A mark is also written when its gate is
-- opened, or to note who is inside: that is no raise.
create function lab_step() returns trigger language plpgsql security definer set search_path = public as $$
declare
	r jsonb := to_jsonb(coalesce(new, old));
	v_what text;
	v_original boolean := true;
begin
	if tg_table_name = 'mark' and tg_op = 'UPDATE' and r->>'pass' = to_jsonb(old)->>'pass' and not exists (
		select from step s where s.xid = pg_current_xact_id()::text and s.what = 'raise' and s.resource = r->>'resource' and not s.original
	) then
		return null;
	end if;
	if tg_table_name in ('mark', 'gate') then
		execute format('select t.written is not distinct from t.xmin from ringfence_private.%I t where t.resource = $1', tg_table_name)
			into v_original using r->>'resource';
	elsif tg_table_name = 'installation' then
		select t.written is not distinct from t.xmin into v_original from ringfence_private.installation t;
	end if;
	v_what := case tg_table_name
		when 'session' then case when tg_op = 'DELETE' then 'forget' when r->>'attachment' is null then 'register' else 'attach' end
		when 'mark' then 'raise'
		when 'gate' then case when tg_op <> 'DELETE' and (r->>'open')::boolean then 'open' else 'shut' end
		else case when r->>'registry' = ringfence.registry() then 'complete' else 'incomplete' end
	end;
	if tg_op = 'DELETE' and tg_table_name not in ('session', 'gate') then
		return null;
	end if;
	insert into step (what, resource, token, issuer, backend, original, run) values (v_what,
		coalesce(r->>'resource', ''), coalesce((r->>'token')::bigint, 0), coalesce(r->>'issuer', ''),
		coalesce(lab_backend((r->>'pid')::integer, (r->>'backend_start')::timestamptz), ''),
		coalesce(v_original, false), case when tg_table_name = 'gate'
			then ringfence.server() || '/' || (extract(epoch from (r->>'started')::timestamptz) * 1000000)::bigint else ringfence.run() end);
	return null;
end $$;

create function lab_record(p_table text) returns void language plpgsql security definer as $$ begin
	if p_table in ('session', 'mark', 'gate', 'installation') then
		execute format('create trigger lab after insert or update or delete on ringfence_private.%I for each row execute function public.lab_step()', p_table);
	end if;
	if p_table = 'session' then
		insert into public.step (what, run) values ('empty', '');
	end if;
end $$;
select lab_record(t) from unnest(array['session', 'mark', 'gate', 'installation']) t;
insert into step (what, run) select 'complete', '' where ringfence.complete();

-- The schema may be dropped and installed again.
create function lab_created() returns event_trigger language plpgsql as $$ begin
	perform public.lab_record(split_part(c.object_identity, '.', 2)) from pg_event_trigger_ddl_commands() c
		where c.schema_name = 'ringfence_private' and c.object_type = 'table';
end $$;
create event trigger lab_created on ddl_command_end when tag in ('CREATE TABLE') execute function lab_created();

-- Without the rows that were written again in their transaction.
create view final_step as select * from step s where original or not exists (
	select from step o where o.xid = s.xid and o.what = s.what and o.resource = s.resource and o.original);
