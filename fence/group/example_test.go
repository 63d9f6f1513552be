package group_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/ringfence/ringfence/fence/fencetest"
	"github.com/ringfence/ringfence/fence/group"
)

var errEnough = errors.New("seen enough")

// A process joins a group, and watches who else is there.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	// zookeeper.Open, etcd.Open or postgres.Open
	coordinator := fencetest.NewMemory(10 * time.Second).Open()
	defer coordinator.Close()

	g, err := group.New(coordinator, "settlement")
	if err != nil {
		log.Fatal(err)
	}
	member, err := g.Join("host-7", []byte(`{"capacity":4}`))
	if err != nil {
		log.Fatal(err)
	}
	defer member.Leave()

	err = g.Watch(ctx, func(all []group.Member) error {
		for _, m := range all {
			fmt.Printf("%s is there: %s\n", m.Name, m.Value)
		}
		if len(all) == 0 {
			return nil
		}
		return errEnough
	})
	fmt.Println(err)
	// Output:
	// host-7 is there: {"capacity":4}
	// seen enough
}
