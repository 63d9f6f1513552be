// Package peeruser tells which user of this machine is at the other end of a connection.
//
//	peer, err := peeruser.Of(conn)
//	listener = peeruser.Listener{Listener: listener, Admit: peeruser.OnlyUser(os.Getuid()), Log: tally.NewLog(log)}
//
// On a Unix socket the kernel notes the user who connects (SO_PEERCRED of unix(7); LOCAL_PEERCRED
// elsewhere). For a loopback address only Linux tells it, in /proc/net/tcp.
package peeruser
