//go:build !unix

package main

// lockDirectory does nothing: there is no such lock here.
func lockDirectory(string) (unlock func(), err error) { return func() {}, nil }
