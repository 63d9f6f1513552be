// Program devserver runs a Temporal server with SQLite in memory, and prints its address and a
// namespace.
package main

import (
	"fmt"
	"os"
	"os/signal"

	"go.temporal.io/server/temporaltest"
)

func main() {
	s := temporaltest.NewServer()
	fmt.Println(s.GetFrontendHostPort(), s.GetDefaultNamespace())
	end := make(chan os.Signal, 1)
	signal.Notify(end, os.Interrupt)
	<-end
}
