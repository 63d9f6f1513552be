// Package seal seals tables of Postgres against writes that go round the guard, and finds what no
// seal covers. It is what guard protect, guard unprotect and guard check run.
//
//	plan, err := seal.Protect(ctx, conn, seal.Request{Resource: "orders", Tables: []string{"entry"}})
//	if err != nil {
//		return err
//	}
//	fmt.Print(plan.SQL()) // or
//	err = plan.Run(ctx, conn)
//
// A seal is a statement trigger, which calls ringfence.seal
// (internal/postgres/pgschema/sql/seal.sql says how it decides). A statement fires only the
// triggers of the table that it names, so a table is sealed together with its partitions and
// children, and each has a seal of its own. The seal is ENABLE ALWAYS: session_replication_role
// does not switch it off.
//
// The operator's wish is also recorded by name in ringfence.sealed. So Check finds a table that has
// lost its seal, for example because a migration has created it anew.
package seal
