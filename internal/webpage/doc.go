// Package webpage is what the status pages of guards and of jobs have in common: the style, the
// headers, and streams of server-sent events.
//
//	webpage.Register(mux, files, "page.html", "page.js") // and page.css, live.js, icon.svg
//	streams := webpage.NewStreams()
//	streams.Serve(w, r, func() (any, <-chan struct{}) { return state, changed })
//	streams.Close()
//
// A page stays open for days. So a stream sends the whole state, at most once a second, and skips what
// its reader was too slow for. A reader that takes nothing for ten seconds is dropped, and the number of
// streams is bounded.
package webpage
