//go:build unix && !linux

package supervise

// memoryKills is not known on this system.
func memoryKills() int { return 0 }
