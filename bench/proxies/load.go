package proxies

import "time"

// load is a number of clients that send the same command again and again to Redis, a pipeline at a
// time, and wait for all replies before they send the next.
type load struct {
	clients int
	depth   int    // commands in a pipeline
	command []byte // as it is sent
	reply   []byte // to it
	time    time.Duration
}
