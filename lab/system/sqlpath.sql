create table pending (op text primary key, token bigint not null);
create function record_pending() returns trigger language plpgsql as $$ begin
	insert into public.ledger (op, token) values (new.op, new.token);
	return null;
end $$;
create constraint trigger record_pending after insert on pending
	deferrable initially deferred for each row execute function record_pending();
create function record_entry(p_op text, p_token bigint) returns bigint language sql volatile as $$
	insert into public.ledger (op, token) values (p_op, p_token) returning token
$$;
create table lease (token bigint not null); -- what a fence that was written by hand looks at
insert into lease values (0);
grant all on pending, lease to app;
