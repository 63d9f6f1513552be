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

	"github.com/ringfence/ringfence/internal/test/must"
)

func redisDo(t *testing.T, r *Redis, command string) string {
	t.Helper()
	c, err := net.Dial("tcp", r.Addr())
	must.Succeed(t, err)
	defer c.Close()
	// an append takes long on a slow disk
	must.Succeed(t, c.SetDeadline(time.Now().Add(30*time.Second)))
	_, err = c.Write([]byte(command + "\r\n"))
	must.Succeed(t, err)
	reply, err := bufio.NewReader(c).ReadString('\n')
	must.Succeed(t, err)
	return strings.TrimSpace(reply)
}

func TestKilledRedisKeepsItsAppendOnlyFile(t *testing.T) {
	r, err := StartRedis(limited(t), RedisOptions{
		Args: []string{"--appendonly", "yes", "--appendfsync", "always"},
	})
	must.Succeed(t, err)
	closed(t, r)
	addr := r.Addr()
	if got := redisDo(t, r, "SET kept 1"); got != "+OK" {
		t.Fatal(got)
	}
	must.Succeed(t, r.Kill())
	must.Succeed(t, r.Start(limited(t)))
	if got := redisDo(t, r, "INCR kept"); got != ":2" || r.Addr() != addr {
		t.Error(got, r.Addr())
	}
}

func TestPausedRedisAnswersAfterResume(t *testing.T) {
	r, err := StartRedis(limited(t), RedisOptions{})
	must.Succeed(t, err)
	closed(t, r)
	must.Succeed(t, r.Pause())
	c, err := net.Dial("tcp", r.Addr()) // the kernel accepts the connection
	must.Succeed(t, err)
	defer c.Close()
	_, err = c.Write([]byte("PING\r\n"))
	must.Succeed(t, err)
	in := bufio.NewReader(c)
	must.Succeed(t, c.SetReadDeadline(time.Now().Add(50*time.Millisecond)))
	if _, err := in.ReadByte(); err == nil {
		t.Error("a paused server answered")
	}
	must.Succeed(t, r.Resume())
	must.Succeed(t, c.SetReadDeadline(time.Now().Add(30*time.Second)))
	if line, err := in.ReadString('\n'); line != "+PONG\r\n" {
		t.Error(line, err)
	}
}

func TestCloseEndsRedisAndMayBeCalledTwice(t *testing.T) {
	r, err := StartRedis(limited(t), RedisOptions{})
	must.Succeed(t, err)
	family := r.live().family()
	must.Succeed(t, r.Close())
	must.Succeed(t, r.Close())
	if len(family) == 0 || !allGone(family) || !gone(r.Dir()) || r.PID() != 0 {
		t.Error("something is left")
	}
}

func TestRedisWithAPasswordStarts(t *testing.T) {
	r, err := StartRedis(limited(t), RedisOptions{Args: []string{"--requirepass", "secret"}})
	must.Succeed(t, err)
	closed(t, r)
	if got := redisDo(t, r, "PING"); !strings.HasPrefix(got, "-NOAUTH") {
		t.Error(got)
	}
}

func TestStartOnATakenPortReportsIt(t *testing.T) {
	r, err := StartRedis(limited(t), RedisOptions{})
	must.Succeed(t, err)
	closed(t, r)
	must.Succeed(t, r.Stop())
	l, err := net.Listen("tcp", r.Addr())
	must.Succeed(t, err)
	err = r.Start(limited(t))
	if !errors.Is(err, errPortTaken) || r.PID() != 0 {
		t.Error(err)
	}
	must.Succeed(t, l.Close())
	must.Succeed(t, r.Start(limited(t)))
}

func TestAnotherPortIsTriedWhenOneIsTaken(t *testing.T) {
	r, err := StartRedis(limited(t), RedisOptions{})
	must.Succeed(t, err)
	closed(t, r)
	must.Succeed(t, r.Stop())
	var l net.Listener
	t.Cleanup(func() { _ = l.Close() })
	err = startOnFreePorts(limited(t), 1, func(ports []int) error {
		if r.port = ports[0]; l == nil {
			var err error
			l, err = net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(r.port)))
			must.Succeed(t, err)
		}
		return r.Start(limited(t))
	})
	must.Succeed(t, err)
	if l.Addr().String() == r.Addr() {
		t.Error("the taken port was used")
	}
}

func TestKillEndsAWaitingStart(t *testing.T) {
	r, err := StartRedis(limited(t), RedisOptions{})
	must.Succeed(t, err)
	closed(t, r)
	must.Succeed(t, r.Stop())
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
	must.Succeed(t, r.Kill())
	if err := <-started; !errors.Is(err, errExited) {
		t.Error(err)
	}
}
