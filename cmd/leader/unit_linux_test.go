package main

import (
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// notified is the socket of a service manager, and what it has heard.
func notified(t *testing.T) (address string, await func(text string)) {
	t.Helper()
	address = filepath.Join(t.TempDir(), "notify")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: address, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	said := make(chan string, 10_000) // the kernel drops what does not fit in the socket
	var reading sync.WaitGroup
	t.Cleanup(func() { _ = l.Close(); reading.Wait() })
	reading.Go(func() {
		defer close(said)
		for b := make([]byte, 4<<10); ; {
			n, err := l.Read(b)
			if err != nil {
				return
			}
			select {
			case said <- string(b[:n]):
			default:
			}
		}
	})
	heard := ""
	return address, func(text string) {
		t.Helper()
		late := time.After(time.Minute)
		for !strings.Contains(heard, text) {
			select {
			case more := <-said:
				heard += more + "\n"
			case <-late:
				t.Fatalf("%q has not come; heard:\n%s", text, heard)
			}
		}
		_, heard, _ = strings.Cut(heard, text)
	}
}

// A standby is as ready as a leader, or the service manager would end it again and again.
func TestTheServiceManagerHearsOfStandbyAndLeader(t *testing.T) {
	t.Parallel()
	first := shell(t, setup{}, "echo leads; sleep 1000")
	first.out.Await(t, "leads")
	address, await := notified(t)
	environ := []string{"NOTIFY_SOCKET=" + address, "WATCHDOG_USEC=300000"}
	second := shell(t, setup{memory: first.memory, env: environ}, `env; echo leads; exec sleep 1000`)
	await("READY=1\nSTATUS=Standing for election: orders")
	await("WATCHDOG=1")
	await("WATCHDOG=1")
	first.depose()
	first.exits(runLost)
	await("STATUS=Leading orders under token 2")
	await("WATCHDOG=1")
	second.out.Await(t, "leads")
	for _, name := range []string{"NOTIFY_SOCKET", "WATCHDOG_USEC"} {
		if strings.Contains(second.out.String(), name) {
			t.Errorf("the command got %s, and would speak for leader", name)
		}
	}
	second.depose()
	second.exits(runLost)
	await("STATUS=Standing for election: orders")
}

func TestAWorkerIsReadyForTheServiceManager(t *testing.T) {
	t.Parallel()
	address, await := notified(t)
	begin(t, setup{env: []string{"NOTIFY_SOCKET=" + address}}, "work", "nightly")
	await("READY=1\nSTATUS=Working for nightly")
}
