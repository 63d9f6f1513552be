// Package ensemble is the client of a ZooKeeper ensemble: sessions, requests, watches and what the
// URL says. It knows nothing of elections; package election below it has what is common to those
// who read one.
//
//	c, err := ensemble.New("zk://zk1:2181,zk2:2181/ringfence", ensemble.Options{})
//	names, err := ensemble.Ask(ctx, c, func(ctx context.Context, s *ensemble.Session) ([]string, error) {
//		return s.List(ctx, "/ringfence")
//	})
//	err = c.Close()
//
// A Client has one session of its own, for Ask and Follow. It lasts for one connection: when that
// breaks, or a server does not answer, the next call opens another. NewSession opens a session that
// outlasts its connections, for a candidate whose znodes are to live as long. In a session, Do
// makes a request once and Retry until it is answered.
//
// # One session, never two
//
// A zk.Conn whose session has expired opens another one without asking, and runs in it whatever was
// queued. So each connection is read along: a greeting that does not carry the session is never
// shown to the zk.Conn (see link), and no request can run in another one. So no request of a
// campaign runs in another session than the one that enrolled. Likewise a process never takes over
// the session of another process, though ZooKeeper would allow it: one token in two live processes
// would defeat fencing.
package ensemble
