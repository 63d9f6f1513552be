//go:build !linux

package main

// allowFiles changes nothing on systems other than Linux.
func allowFiles(n int) int { return n }

func enoughMemory() bool { return true }
