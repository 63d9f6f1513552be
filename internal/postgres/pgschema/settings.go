package pgschema

// Settings are for the begin of a transaction of an operator, so that no default of a database, a
// role or a pooler changes what its statements mean. With this search_path no function or operator
// is called that somebody has made in public. An extension may have made another kind of table the
// default, which has no xmin; and a role that other commands quote for, quoted names.
const Settings = `set local search_path = pg_catalog, pg_temp;
set local client_min_messages = warning;
set local lock_timeout = '10s';
set local statement_timeout = 0;
set local synchronous_commit = on;
set local default_table_access_method = heap;
set local plpgsql.extra_errors = 'none';
set local plpgsql.extra_warnings = 'none';
set local quote_all_identifiers = off;
`

// Begin begins an installation.
const Begin = "begin isolation level read committed read write;\n" + Settings
