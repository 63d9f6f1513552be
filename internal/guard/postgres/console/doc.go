// Package console answers SHOW statements over the Postgres protocol (manual, chapter 55,
// "Frontend/Backend Protocol"). It has no database behind it: each statement is a function that
// returns rows.
//
//	statements := []console.Statement{{
//		Name: "fences", Meaning: "the mark of each resource",
//		Columns: []console.Column{{"resource", console.Text}, {"token", console.Integer}},
//		Rows: func(ctx context.Context) (console.Rows, error) { … },
//	}}
//	err := console.Serve(ctx, client, reader, statements, idle, stall) // until the client leaves
//
// The client has logged in before, and has got ReadyForQuery.
//
// Simple and extended queries work, in text and in binary format. SHOW HELP lists the statements.
// Every other statement, BEGIN and SET among them, is refused with 0A000. So a console changes
// nothing. What JDBC sets after each login has no effect, but is not refused.
package console
