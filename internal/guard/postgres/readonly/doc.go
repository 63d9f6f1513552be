// Package readonly relays sessions without a token, which may only read. Three rules ensure that:
//
//   - A transaction begins read-only, because the guard has set default_transaction_read_only for the
//     session. The server reports that setting before each ReadyForQuery (from Postgres 14 on), and
//     the guard ends a session that has changed it.
//   - Between the end of a transaction and the beginning of the next one there is such a report. The
//     server answers a Query or a Sync before the guard looks at the next message. Behind an Execute
//     the guard sends a Sync of its own, unless the client's comes next (report). After an error the
//     server skips everything up to a Sync. In a Query nothing may follow the end of a transaction.
//   - Only listed statements pass (judge). None of them makes a transaction writable, writes although
//     it is read-only, or commits inside itself. A text is read with the settings of the last report:
//     one that depends on them waits for a report, too.
//
// So every statement is in a transaction that began under the setting. Parsing and planning can run
// functions, which can change settings, but end no transaction. It does not matter which statement an
// Execute runs. The server tells names of statements apart in its own way: by their first 63 bytes, in
// its own encoding, and without a Parse that it has skipped. So the guard goes by no name.
//
// A refused statement is replaced by one that the server cannot parse, with a name that nobody can
// guess, and the server's error by the guard's. So the error comes in its place, and aborts a
// transaction or a pipeline as any error does.
package readonly
