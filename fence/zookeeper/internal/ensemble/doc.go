// Package ensemble is the client of a ZooKeeper ensemble: sessions, requests, watches and the URL.
// It knows nothing of elections.
//
//	c, err := ensemble.New("zk://zk1:2181,zk2:2181/ringfence", timeout, log, refused)
//	names, err := ensemble.Ask(ctx, c,
//		func(ctx context.Context, s *ensemble.Session) ([]string, error) {
//			return s.List(ctx, "/ringfence")
//		})
//	err = c.Close()
//
// A Client has one session of its own, for Ask and Follow. It lasts for one connection: if the
// connection breaks, or a server does not answer, the next call opens another session. NewSession
// opens a session that outlasts its connections, for candidates and their znodes. In a session, Do
// makes a request once, and Retry repeats it until it is answered.
//
// # One session, never two
//
// If the session of a zk.Conn expires, it silently opens another one and runs the queued requests
// in it. To prevent that, link reads the stream first: it does not show the zk.Conn a greeting of
// another session. So no request of a campaign runs in another session than the one that enrolled.
// Likewise a process never takes over the session of another process, although ZooKeeper would
// allow it: one token in two live processes would defeat fencing.
package ensemble
