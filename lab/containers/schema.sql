-- What compose.yaml creates in Postgres, once: the roles of guard and application, and the lab's
-- tables.
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
\echo created the roles guard and app, and the tables of the lab
\else
\echo nothing to do: the tables are there
\endif
