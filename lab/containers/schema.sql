-- What compose.yaml makes in Postgres, once: the guard's role, the application's, and the tables of the lab.
-- Passwords come from the environment. Run by psql 15 or newer.
\set ON_ERROR_STOP on
\getenv guard_password GUARD_PASSWORD
\getenv app_password APP_PASSWORD
select to_regclass('public.ledger') is null as missing \gset
\if :missing
create role guard login password :'guard_password';
create role app login password :'app_password';
\o /dev/null
\ir tables.sql
\o
\echo made the roles guard and app, and the tables of the lab
\else
\echo nothing to do: the tables are there
\endif
