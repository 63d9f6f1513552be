//go:build !unix

package unixsocket

// lockDirectory does nothing: this system has no such lock.
func lockDirectory(string) (unlock func(), err error) { return func() {}, nil }
