-- What compose.yaml creates in Postgres: the table of the program, and a role for each purpose.
create table ledger (id bigint generated always as identity, note text);
create role app login password 'app';
grant select, insert on ledger to app;
create role guard login password 'guard';
create role elections login password 'elections';
grant create on database postgres to elections;
