package checkpointtest

import (
	"fmt"
	"sync"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/internal/test/contract"
)

var concurrentClauses = []contract.Clause[*stage]{
	{Name: "Of many publishes of one version at once, exactly one lands", Holds: exactlyOneLands},
	{Name: "Many tasks at once do not disturb each other", Holds: manyTasks},
}

// atOnce calls do n times concurrently and returns the answers.
func atOnce(n int, do func(i int) error) []error {
	answers := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { answers[i] = do(i) })
	}
	all.Wait()
	return answers
}

func exactlyOneLands(k *stage) {
	c := k.lead(orders)
	for n := range int64(8) {
		of := func(i int) checkpoint.Checkpoint {
			return version(n+1, c, nightly, fmt.Sprint("rival ", i))
		}
		answers := atOnce(4, func(i int) error {
			return k.try([]checkpoint.Journal{k.Journal, k.Second}[i%2], c, of(i))
		})
		k.stays(nightly, of(k.onlyWinner(answers)))
	}
}

// onlyWinner fails the test unless one answer is nil and all others are conflicts.
func (k *stage) onlyWinner(answers []error) int {
	k.Helper()
	winner := -1
	for i, err := range answers {
		switch {
		case err == nil && winner < 0:
			winner = i
		case err == nil:
			k.Fatalf("two landed at once")
		default:
			k.answered(err, checkpoint.ErrConflict)
		}
	}
	if winner < 0 {
		k.Fatalf("none landed: %v", answers)
	}
	return winner
}

func manyTasks(k *stage) {
	const tasks, versions = 12, 5
	c := k.lead(orders)
	name := func(i int) checkpoint.Name { return checkpoint.Name(fmt.Sprint("task-", i)) }
	for i, err := range atOnce(tasks, func(i int) error {
		j := []checkpoint.Journal{k.Journal, k.Second}[i%2]
		for n := range int64(versions) {
			if err := k.try(j, c, version(n+1, c, name(i), "a")); err != nil {
				return fmt.Errorf("version %d: %w", n+1, err)
			}
		}
		return nil
	}) {
		if err != nil {
			k.Errorf("%s: %v", name(i), err)
		}
	}
	for i := range tasks {
		k.stays(name(i), version(versions, c, name(i), "a"))
	}
}
