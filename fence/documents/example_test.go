package documents_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/documents"
	"github.com/ringfence/ringfence/fence/fencetest"
)

// today is the path of a price list.
const today = "shop/prices/today"

// A leader publishes a price list. After it was deposed, its change is refused, however late it
// comes.
func Example() {
	ctx := context.Background()
	// zookeeper.Open, etcd.Open or postgres.Open
	coordinator := fencetest.NewMemory(10 * time.Second).Open()
	defer coordinator.Close()
	docs := coordinator.Documents()

	term, err := coordinator.Campaign(ctx, "prices", "host-1")
	if err != nil {
		log.Fatal(err)
	}
	_, err = docs.Change(ctx, documents.Change{
		While:  []fence.Claim{term.Claim()},
		Writes: []documents.Write{documents.Create(today, []byte("apples 3"))},
	})
	fmt.Println("published:", err)

	found, err := docs.Get(ctx, documents.At(today))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("version %d: %s\n", found[0].Version, found[0].Data)

	if err := term.Resign(ctx); err != nil {
		log.Fatal(err)
	}
	_, err = docs.Change(ctx, documents.Change{
		While:  []fence.Claim{term.Claim()},
		Writes: []documents.Write{documents.Replace(found[0], []byte("apples 4"))},
	})
	fmt.Println("refused:", errors.Is(err, fence.ErrStale))
	// Output:
	// published: <nil>
	// version 1: apples 3
	// refused: true
}
