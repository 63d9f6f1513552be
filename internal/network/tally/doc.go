// Package tally keeps what clients cause out of the log's way: of a crowd of events it reports the
// first one, and then how many there were in each minute.
//
//	log := tally.NewLog(slog.Default())
//	defer log.Close()
//	log.Warn("connection ended", err, "client", conn.RemoteAddr())
//
// A balancer that opens and closes a connection each second makes one line a minute of that. A
// client that invents errors makes at most MaxKinds+1 lines a minute.
package tally
