// Package webpage is what the status pages of guards and of jobs have in common: the style, the
// headers, streams of server-sent events, and the limits of their server.
//
//	webpage.Register(mux, files, "page.html", "page.js") // and page.css, live.js, icon.svg
//	streams := webpage.NewStreams()
//	streams.Serve(w, r, func() (any, <-chan struct{}) { return state, changed })
//	streams.Close()
//
// A page stays open for days. So a stream sends the whole state, at most once a second, and skips
// what its reader was too slow for. A reader that takes nothing for ten seconds is dropped.
//
// Connections and streams are bounded. Who asks for one more gets the place of the client that has
// the most of them, so no client can keep the others out. Clients are told apart by their address:
// behind a proxy all are one. A request has to arrive within ten seconds.
package webpage
