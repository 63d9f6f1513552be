// Package tlsconfig makes TLS configurations: for a client from the options of a URL, and for a
// server from files that may be replaced while the server runs.
//
//	server, err := tlsconfig.NewServer(tlsconfig.Files{Cert: "server.crt", Key: "server.key"}, tlsconfig.Reports{})
//	encrypted := tls.Server(tlsconfig.NewTransport(conn, nil), server.Config())
//
// A certificate that is renewed takes effect at the next handshake. A file that cannot be read then
// is reported once, and the certificate before it stays in use.
//
// A Transport is what a relay puts between TLS and the network.
package tlsconfig
