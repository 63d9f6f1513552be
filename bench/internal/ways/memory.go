package ways

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Memory is what a guard uses, in bytes.
type Memory struct {
	Resident   int64 // of the process
	Live       int64 // in use by the Go program: heap and stacks
	Goroutines int64
}

// settleLimit bounds each wait for a guard's memory to settle.
const settleLimit = 3 * time.Minute

// Memory returns what the guard uses after two garbage collections, which are provoked. That
// touches memory which the guard had not used before, so its resident memory is higher than at
// rest.
func (g *GuardProcess) Memory(ctx context.Context) (Memory, error) {
	if err := g.collect(ctx, 2, 0); err != nil {
		return Memory{}, err
	}
	return g.read(ctx)
}

// MemoryAtRest returns what the guard uses after a garbage collection that nobody has provoked. Go
// makes one every two minutes.
func (g *GuardProcess) MemoryAtRest(ctx context.Context) (Memory, error) {
	if err := g.collect(ctx, 1, 5*time.Second); err != nil {
		return Memory{}, err
	}
	return g.read(ctx)
}

// read returns the memory when the resident memory does not shrink any more.
func (g *GuardProcess) read(ctx context.Context) (m Memory, err error) {
	if m.Resident, err = g.settled(ctx); err != nil {
		return m, err
	}
	values, err := g.metrics(ctx)
	if err != nil {
		return m, err
	}
	m.Live = int64(values["go_memstats_heap_inuse_bytes"] + values["go_memstats_stack_inuse_bytes"])
	m.Goroutines = int64(values["go_goroutines"])
	return m, nil
}

// collect asks for the metrics until so many collections have run, with a pause between two
// questions. Without a pause the answers are the garbage that starts a collection.
func (g *GuardProcess) collect(
	ctx context.Context, collections float64, pause time.Duration,
) error {
	ctx, cancel := context.WithTimeout(ctx, settleLimit)
	defer cancel()
	before := -1.0
	for {
		values, err := g.metrics(ctx)
		if err != nil {
			return fmt.Errorf("wait for the garbage collection: %w", err)
		}
		now := values["go_gc_duration_seconds_count"]
		if before < 0 {
			before = now
		}
		if now >= before+collections {
			return nil
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// settled returns the resident memory when it has not become smaller by more than a hundredth in
// three looks. If that takes too long it returns the last value.
func (g *GuardProcess) settled(parent context.Context) (int64, error) {
	const looks, every = 3, time.Second
	ctx, cancel := context.WithTimeout(parent, settleLimit)
	defer cancel()
	least, err := resident(g.PID())
	for stable := 0; err == nil && stable < looks; {
		select {
		case <-ctx.Done():
			return least, parent.Err()
		case <-time.After(every):
		}
		var now int64
		now, err = resident(g.PID())
		stable++
		if now < least-least/100 {
			stable = 0
		}
		least = now
	}
	return least, err
}

// metrics returns the guard's metrics that have no labels.
func (g *GuardProcess) metrics(ctx context.Context) (map[string]float64, error) {
	text, err := g.page(ctx, "/metrics")
	if err != nil {
		return nil, err
	}
	return parseMetrics(text)
}

func parseMetrics(text string) (map[string]float64, error) {
	values := map[string]float64{}
	for line := range strings.Lines(text) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok || name == "#" || strings.Contains(name, "{") {
			continue
		}
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return nil, fmt.Errorf("metric %s: %w", name, err)
		}
		values[name] = v
	}
	return values, nil
}
