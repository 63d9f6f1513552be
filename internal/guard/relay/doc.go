// Package relay passes bytes between a client and a server, both ways, and lets a Walker for each
// direction see, hold back and replace messages. It knows no protocol.
//
//	loops, err := relay.StartLoops(2)
//	if err != nil {
//		return err
//	}
//	defer loops.Close()
//	client, server = loops.Adopt(client, server)
//	r := relay.Start(ctx, relay.Leg{Conn: client}, relay.Leg{Conn: server}, up, down, relay.Liveness{})
//	end := r.Wait()
//
// # Two engines
//
// A Relay behaves the same with both, and every test of this package runs on both.
//
//   - Goroutines: one for each direction. It takes any net.Conn, on any system.
//   - Loops, on Linux: a few goroutines, each of which waits with epoll(7) for many sockets. Adopt
//     takes two sockets out of Go's network poller and gives them to a loop. Each may have TLS
//     above it. Before and after the relay, an adopted connection is an ordinary net.Conn, with
//     deadlines.
//
// A loop saves what costs most for a small message: to wake a goroutine and to park it. A message
// costs three system calls: epoll_wait, which returns many events at once, one read and one write.
// An idle session has no goroutine and no buffer here.
//
// # How a loop works
//
// A flow is one direction of a session. An event of its source makes the loop read, walk and write,
// all in one goroutine, until a read has emptied the socket.
//
//	idle ──event──▶ running ──nothing left to read──▶ idle
//	                  │  ▲
//	            event │  │ look once more
//	                  ▼  │
//	                 again                   running ──end of stream, error, deadline──▶ over
//
// At any time at most one goroutine runs a flow. An event that comes while it runs sets the state
// to again, so no event is lost.
//
// A flow that has to wait, because its peer is slow to read, must not hold up the others. It hands
// the loop over to a new goroutine and keeps the one that it is in. So a Walker may block in a
// write, and the code for a slow peer (patience, deadlines) is the same for both engines.
//
// Events are edge-triggered: one comes when there is something new. A read that returns less than
// it had room for has emptied a TCP socket, so the read that would only say EAGAIN is left out. An
// end of stream that came together with the bytes is in the same event (EPOLLRDHUP), and from then
// on the flow reads until the end. On a Unix socket ancillary data makes a read short, so there a
// flow always reads until EAGAIN.
//
// # TLS in a loop
//
// A [tls.Conn] has locks: a write holds one until everything is written, and a read takes the same
// one to answer a message of the peer's TLS. So a client that asks for new keys and does not read
// could hold up a loop. To avoid that, no call of a tls.Conn waits in a loop. A read of an empty
// socket returns a temporary error, after which the tls.Conn can go on in the middle of a record.
// What it writes is kept, and whoever has called it sends the records afterwards, one at a time and
// in order:
//
//	read:   turn{ tls.Conn.Read } ── did TLS answer anything? ──▶ send
//	write:  sending{ turn{ tls.Conn.Write, take the records }, send them }
//
// Only sending may wait for a peer, after the flow has left the loop. After an error there, nothing
// is sent any more, because TLS cannot go on after a gap.
//
// A tls.Conn may have read more than the socket's events tell. So a flow reads until it gets the
// temporary error. That costs no system call if the read before has emptied the socket.
//
// # Descriptors
//
// A descriptor is closed only when no system call uses it, so that no byte can reach a connection
// that has got the same number since. An event names its socket by a number that the loop has used
// for no other, so a late one is dropped.
package relay
