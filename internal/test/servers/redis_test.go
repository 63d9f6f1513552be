package servers

import (
	"bufio"
	"context"
	"errors"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"
)

func redisDo(t *testing.T, r *Redis, command string) string {
	t.Helper()
	c, err := net.Dial("tcp", r.Addr())
	must(t, err)
	defer c.Close()
	must(t, c.SetDeadline(time.Now().Add(30*time.Second))) // an append takes long on a slow disk
	_, err = c.Write([]byte(command + "\r\n"))
	must(t, err)
	reply, err := bufio.NewReader(c).ReadString('\n')
	must(t, err)
	return strings.TrimSpace(reply)
}

func TestKilledRedisKeepsItsAppendOnlyFile(t *testing.T) {
	r, err := StartRedis(limited(t), RedisOptions{
		Args: []string{"--appendonly", "yes", "--appendfsync", "always"},
	})
	must(t, err)
	closed(t, r)
	addr := r.Addr()
	if got := redisDo(t, r, "SET kept 1"); got != "+OK" {
		t.Fatal(got)
	}
	must(t, r.Kill())
	must(t, r.Start(limited(t)))
	if got := redisDo(t, r, "INCR kept"); got != ":2" || r.Addr() != addr {
		t.Error(got, r.Addr())
	}
}

func TestPausedRedisAnswersAfterResume(t *testing.T) {
	r, err := StartRedis(limited(t), RedisOptions{})
	must(t, err)
	closed(t, r)
	must(t, r.Pause())
	c, err := net.Dial("tcp", r.Addr()) // the kernel accepts the connection
	must(t, err)
	defer c.Close()
	_, err = c.Write([]byte("PING\r\n"))
	must(t, err)
	in := bufio.NewReader(c)
	must(t, c.SetReadDeadline(time.Now().Add(50*time.Millisecond)))
	if _, err := in.ReadByte(); err == nil {
		t.Error("a paused server answered")
	}
	must(t, r.Resume())
	must(t, c.SetReadDeadline(time.Now().Add(30*time.Second)))
	if line, err := in.ReadString('\n'); line != "+PONG\r\n" {
		t.Error(line, err)
	}
}

func TestCloseEndsRedisAndMayBeCalledTwice(t *testing.T) {
	r, err := StartRedis(limited(t), RedisOptions{})
	must(t, err)
	family := r.live().family()
	must(t, r.Close())
	must(t, r.Close())
	if len(family) == 0 || !allGone(family) || !gone(r.Dir()) || r.PID() != 0 {
		t.Error("something is left")
	}
}

func TestRedisWithAPasswordStarts(t *testing.T) {
	r, err := StartRedis(limited(t), RedisOptions{Args: []string{"--requirepass", "secret"}})
	must(t, err)
	closed(t, r)
	if got := redisDo(t, r, "PING"); !strings.HasPrefix(got, "-NOAUTH") {
		t.Error(got)
	}
}

func TestStartOnATakenPortReportsIt(t *testing.T) {
	r, err := StartRedis(limited(t), RedisOptions{})
	must(t, err)
	closed(t, r)
	must(t, r.Stop())
	l, err := net.Listen("tcp", r.Addr())
	must(t, err)
	err = r.Start(limited(t))
	if !errors.Is(err, errPortTaken) || r.PID() != 0 {
		t.Error(err)
	}
	must(t, l.Close())
	must(t, r.Start(limited(t)))
}

func TestAnotherPortIsTriedWhenOneIsTaken(t *testing.T) {
	r, err := StartRedis(limited(t), RedisOptions{})
	must(t, err)
	closed(t, r)
	must(t, r.Stop())
	var l net.Listener
	t.Cleanup(func() { _ = l.Close() })
	err = startOnFreePorts(limited(t), 1, func(ports []int) error {
		if r.port = ports[0]; l == nil {
			var err error
			l, err = net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(r.port)))
			must(t, err)
		}
		return r.Start(limited(t))
	})
	must(t, err)
	if l.Addr().String() == r.Addr() {
		t.Error("the taken port was used")
	}
}

func TestKillEndsAWaitingStart(t *testing.T) {
	r, err := StartRedis(limited(t), RedisOptions{})
	must(t, err)
	closed(t, r)
	must(t, r.Stop())
	asked := make(chan struct{}, 1)
	r.spec.ready = func(context.Context) error {
		select {
		case asked <- struct{}{}:
		default:
		}
		return errors.New("never")
	}
	started := make(chan error)
	go func() { started <- r.Start(limited(t)) }()
	<-asked
	must(t, r.Kill())
	if err := <-started; !errors.Is(err, errExited) {
		t.Error(err)
	}
}
