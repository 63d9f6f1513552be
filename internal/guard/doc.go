// Package guard is the proxy that people put in front of a database: it accepts, limits, drains and relays, and knows no
// protocol. guard/postgres and guard/redis each speak one; package store decides who is admitted.
//
// A guard keeps no authority in memory. It may be killed, paused, restarted empty or run ten times over: the marks and
// the sessions are in the database, and what a guard forgets it reads there.
package guard
