package etcd_test

import (
	"context"
	"fmt"

	"github.com/ringfence/ringfence/checkpoint"
	journals "github.com/ringfence/ringfence/checkpoint/etcd"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/etcd"
	"github.com/ringfence/ringfence/internal/servers/serverstest"
)

// A task of two steps. The election and the checkpoints are in one etcd.
func Example() {
	ctx := context.Background()
	server, err := serverstest.ExampleEtcd(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	url := "etcd://" + server.Addr() + "/example" // yours: etcd://e1:2379,e2:2379,e3:2379/ringfence

	coordinator, err := etcd.Open(ctx, url, etcd.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer coordinator.Close()
	journal, err := journals.Open(ctx, url, journals.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer journal.Close()

	type backup struct{ Files int }
	runner := checkpoint.Runner[backup]{
		Lead:    fence.Lead{Elector: coordinator, Resource: "backup", Holder: "host-7"},
		Journal: journal, Observer: coordinator,
		Task: checkpoint.Task[backup]{
			Name: "backup-2026-11-21",
			Steps: []checkpoint.Step[backup]{
				{Name: "list", Run: func(_ context.Context, b backup, _ checkpoint.Key) (backup, error) {
					b.Files = 42
					return b, nil
				}},
				{Name: "copy", Run: func(_ context.Context, b backup, key checkpoint.Key) (backup, error) {
					fmt.Println("copies", b.Files, "files as", key)
					return b, nil
				}},
			},
		},
	}
	if _, err := runner.Run(ctx); err != nil {
		fmt.Println(err)
		return
	}
	saved, err := journal.Load(ctx, "backup-2026-11-21")
	fmt.Println(saved[0].Status, string(saved[0].State), err)
	// Output:
	// copies 42 files as backup-2026-11-21/1/1/copy
	// done {"Files":42} <nil>
}
