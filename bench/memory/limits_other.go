//go:build !linux

package memory

// allowFiles changes nothing on systems other than Linux.
func allowFiles(n int) int { return n }

func enoughMemory() bool { return true }
