create table ledger (            -- one row for each write, in its own transaction
	op       text primary key,
	token    bigint not null,     -- of the term that the writer believes it has
	carried  text default current_setting('fence.orders', true), -- of the session that wrote
	xid      text default pg_current_xact_id()::text,
	key      text,                -- of a task's step, or of a job's
	resource text                -- of the token, if it is a job's
);
create index ledger_key on ledger (key) where key is not null;
create table account (balance bigint not null);
insert into account values (0);
create table world (             -- effects of asynchronous steps, which are not fenced
	place bigserial, key text not null, token bigint not null
);
grant all on all tables in schema public to app;
grant all on all sequences in schema public to app;
create extension pg_walinspect;   -- reads the log, which has the order of commits
create table log_start as select pg_current_wal_lsn() as lsn;
create view commits as             -- but for the last record of the log
	select case record_type when 'COMMIT_PREPARED' then split_part(description, ':', 1) else xid::text end as xid, start_lsn
	  from log_start, pg_get_wal_records_info(lsn, pg_current_wal_flush_lsn() - 1)
	 where resource_manager = 'Transaction' and record_type in ('COMMIT', 'COMMIT_PREPARED');
