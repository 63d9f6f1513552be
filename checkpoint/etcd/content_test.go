package etcd

import (
	"fmt"
	"testing"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/internal/journaltest"
	"github.com/ringfence/ringfence/internal/servers"
	"github.com/ringfence/ringfence/internal/servers/serverstest"
)

func TestTheLimitIsExact(t *testing.T) {
	b := newBench(t, serverstest.SharedEtcd(t).Addr())
	journaltest.LimitIsExact(t, b.journal(Options{}), b.Lead(orders), defaultLimit,
		"nothing was sent", "keep large data elsewhere")
}

// A member refuses what is a little too large. Its gRPC server refuses what is much too large.
func TestACheckpointAboveTheServersLimitIsTooLarge(t *testing.T) {
	server := serverstest.Etcd(t, servers.EtcdOptions{Args: []string{"--max-request-bytes", "100000"}})
	b := newBench(t, server.Addr())
	j := b.journal(Options{Limit: 4_000_000})
	c := b.Lead(orders)
	first := version(1, c)
	publish(t, j, c, first)
	for _, bytes := range []int{150_000, 1_000_000, 3_900_000} {
		journaltest.TooLarge(t, j.Publish(t.Context(), c, journaltest.Sized(t, 2, c, bytes)),
			"--max-request-bytes", fmt.Sprint(bytes), "4000000", "nothing has landed")
		stored(t, j, first)
	}
	publish(t, j, c, journaltest.Sized(t, 2, c, 90_000))
}

// More tasks than fit into one request, and keys around them.
func TestEveryTaskIsListed(t *testing.T) {
	b := newBench(t, serverstest.SharedEtcd(t).Addr())
	j := b.journal(Options{})
	c := b.Lead(orders)
	const tasks = 2*page + 3
	for i := range tasks {
		cp := version(1, c)
		cp.Task = checkpoint.Name(fmt.Sprint("task-", i))
		publish(t, j, c, cp)
	}
	all, err := j.Load(t.Context())
	if err != nil || len(all) != tasks {
		t.Errorf("%d tasks, %v", len(all), err)
	}
	some, err := j.Load(t.Context(), "task-3", "task-1", "task-3", "never")
	if err != nil || len(some) != 2 || some[0].Task != "task-1" || some[1].Task != "task-3" {
		t.Errorf("%+v, %v", some, err)
	}
}
