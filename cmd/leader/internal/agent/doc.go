// Package agent holds terms for programs on its machine, which need no library for that: they read
// one HTTP response, which is a stream of events. It is leader agent.
//
//	POST   /v1/terms                       stand for election; the answer is a stream of events
//	GET    /v1/terms                       the terms of this agent, and who waits for one
//	DELETE /v1/terms/{id}                  give one up
//	POST   /v1/terms/{id}/beat             the client is alive; from the first one on, it has to go on
//	GET    /v1/leaders/{resource}          who leads
//	GET    /v1/leaders/{resource}/events   who leads, now and at each change
//	GET    /openapi.yaml                   all of this for programs
//
// Errors are JSON: {"error": "…"}.
//
// # The stream is the term
//
// The agent stands for election as long as the client reads. It resigns when the client closes the
// stream, or ends. It also resigns when the client has read nothing until the last deadline that it
// has seen. The kernel of Linux tells what is unread in a Unix socket. TCP does not tell it, so a
// client may send beats, and then these count. Elsewhere the agent waits [webpage.Patience] once
// the socket is full: after about ten events on a Unix socket, by TCP after more.
//
// If the agent ends, the client sees the end of the stream, and the term ends with the session of
// the coordinator. The mark is raised on each store before the event "leading" is sent. An event
// "alive" with the present deadline comes at least every third of a session, but not while the
// coordinator is out of reach. A client that has seen no event until the last deadline does not
// lead: the agent may be paused. The stores need not trust the client for that; they refuse the
// token once a newer one is raised. The agent sends "lost" before it resigns, and ends the stream
// after that.
//
// # Who may ask
//
// On a Unix socket, processes of the user who owns it, and root: the agent asks the kernel for the
// user of each connection, as the mode of the socket's file is not honoured everywhere. On a
// loopback address, whoever has the token. The agent connects to the stores that a client names,
// but with nothing of its own ([stores.Foreign]).
package agent
