// Package page is the status page of a guard: resources with their tokens and holders, the tokens
// over time, the sessions of this guard, and its last refusals. The page keeps itself current by
// server-sent events.
//
//	p := page.New("guard-1")
//	notify, unwatch := p.Watch(guard.Source{Marks: store.Marks, …})
//	// pass every marks.Event of the store to notify
//	p.Register(mux)    // /, /events and the files of the page
//	err := p.Run(ctx)  // ends the streams with ctx
//
// # What it knows
//
// The page hears of raises, sessions and refusals at this guard from events. The marks in the store
// belong to all guards, so Run reads them too, but only while somebody looks. A read of very many
// marks costs the store time, so each one is followed by a pause of twenty times its length.
//
// # Bounds
//
// A client can invent resources, tokens and names, and a page stays open for days. So everything is
// bounded: the resources that changed last, the last steps of each, the refusals (equal ones are
// one with a count), the sessions, the length of a name, the number of streams. A stream sends the
// whole state, at most once a second, and skips what its reader was too slow for. A reader that
// takes nothing for ten seconds is dropped.
//
// The page has no password and no URL. It is not authenticated: whoever may read /metrics may read
// it. Names come from clients, so the script of the page only ever writes them as text.
package page
