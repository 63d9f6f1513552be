//go:build !linux

package servers

// removeSharedMemory does nothing: a killed Postgres leaves a segment of a few bytes until the
// machine restarts.
func removeSharedMemory(string) {}
