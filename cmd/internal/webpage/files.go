package webpage

import (
	"embed"
	"io/fs"
	"net/http"
)

//go:embed files
var shared embed.FS

// Register adds a page to a mux: html at /, its other files, and those that all pages have.
func Register(mux *http.ServeMux, own fs.FS, html string, others ...string) {
	file := func(pattern string, from fs.FS, name string) {
		mux.HandleFunc("GET "+pattern, func(w http.ResponseWriter, r *http.Request) {
			Secure(w.Header())
			http.ServeFileFS(w, r, from, "files/"+name)
		})
	}
	file("/{$}", own, html)
	for _, name := range others {
		file("/"+name, own, name)
	}
	for _, name := range []string{"page.css", "live.js", "icon.svg"} {
		file("/"+name, shared, name)
	}
}

// Secure has the browser run and load nothing but the page's own files, and keep no copy.
func Secure(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; "+
		"img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "+
		"frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}
