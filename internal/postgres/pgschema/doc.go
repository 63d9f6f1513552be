// Package pgschema is what Ringfence has in a database of Postgres: the SQL, and its installation.
//
//	err := pgschema.Roles{Guard: "guard", Leaders: []string{"app"}}.Install(ctx, conn)
//
// The schema ringfence has what programs, guards and operators call. The schema ringfence_private
// has the tables. Every installation replaces the functions, and keeps the rows.
package pgschema
