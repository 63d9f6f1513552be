// Package page is the status page of a guard. It says which store, or whether the coordinator, is
// out; who leads each resource, or for how long nobody does; what was refused; and which sessions
// are open. The page keeps itself current by server-sent events.
//
//	p := page.New(page.Options{Guard: "guard-1", Version: "v0.1.0"})
//	notify, unwatch := p.Watch(guard.Source{Marks: store.Marks, …})
//	// pass every marks.Event of the store to notify, and every guard.Look to p.Look
//	p.Register(mux)    // /, /events and the files of the page
//	p.Run(ctx)         // ends the streams with ctx
//
// # What it knows
//
// The page hears of raises, sessions and refusals at this guard from events. The marks in the store
// belong to all guards, so Run reads them too, but only while somebody looks. A read of very many
// marks costs the store time, so a pause of twenty times its length follows, once two in a row took
// long.
//
// A mark says who led last. Who leads now is for the coordinator to say, which Run asks every two
// seconds while somebody looks. Since when, and when a term ended, the page knows of the elections
// that this guard follows. Of others it knows what it has seen itself.
//
// # Bounds
//
// A client can invent resources, tokens and names, and a page stays open for days. So everything is
// bounded: the resources that changed last, the last terms of each, the refusals (equal ones are
// one with a count), the sessions, the length of a name, the number of streams. A stream sends the
// whole state, at most once a second and at least every 15 s, and skips what its reader was too
// slow for. A reader that takes nothing for ten seconds is dropped.
//
// The page has no password and no URL. It is not authenticated: whoever may read /metrics may read
// it. Names come from clients, so the script of the page only ever writes them as text.
package page
