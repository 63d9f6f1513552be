package servers

// EndSessions returns SQL that ends the sessions for which a condition on pg_stat_activity holds,
// but not its own, and waits until they have ended. Postgres 13 has no pg_terminate_backend that
// waits.
func EndSessions(where string) string {
	others := "from pg_stat_activity where pid <> pg_backend_pid() and (" + where + ")"
	return `do $$ begin
	  for i in 1..6000 loop
	    perform pg_stat_clear_snapshot();
	    perform pg_terminate_backend(pid) ` + others + `; -- also one that has logged in since
	    exit when not exists (select ` + others + `);
	    perform pg_sleep(0.01);
	  end loop;
	end $$`
}
