-- What compose.postgres.yaml creates in the Postgres of elections, once: the role of leaders and
-- guards, which creates the schema of elections. The password comes from the environment. Run by
-- psql 15 or newer.
\set ON_ERROR_STOP on
\getenv elections_password ELECTIONS_PASSWORD
-- A standby may stream from this server, as a role that may replicate: the superuser.
\! echo 'host replication postgres samenet scram-sha-256' >> "$PGDATA/pg_hba.conf"
create role elections login password :'elections_password';
grant create on database postgres to elections;
