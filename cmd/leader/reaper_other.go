//go:build unix && !linux

package main

// startReaper returns none: elsewhere the first process is always the system's own.
func startReaper() (*reaper, func()) { return nil, func() {} }
