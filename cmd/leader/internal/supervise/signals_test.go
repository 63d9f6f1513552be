package supervise

import (
	"context"
	"errors"
	"os"
	"syscall"
	"testing"
	"time"
)

func TestASignalThatTheSupervisorHasNotReceivedEndsTheContext(t *testing.T) {
	incoming := make(chan os.Signal)
	ctx, s, stop := Listen(t.Context(), func() (<-chan os.Signal, func()) {
		return incoming, func() { close(incoming) }
	})
	defer stop()
	_, restore := s.Divert()
	incoming <- syscall.SIGUSR1
	incoming <- syscall.SIGTERM
	incoming <- syscall.SIGUSR2 // received, so the others have been diverted
	if ctx.Err() != nil {
		t.Fatal("a diverted signal has ended the context")
	}
	restore()
	select {
	case <-ctx.Done():
	case <-time.After(30 * time.Second):
		t.Fatal("the context has not ended")
	}
	got, ok := errors.AsType[Signalled](context.Cause(ctx))
	if !ok || got.Signal != syscall.SIGTERM {
		t.Errorf("the cause is %v", context.Cause(ctx))
	}
}

func TestASecondSignalIsHeardAfterOneHasEndedTheContext(t *testing.T) {
	incoming := make(chan os.Signal)
	ctx, s, stop := Listen(t.Context(), func() (<-chan os.Signal, func()) {
		return incoming, func() { close(incoming) }
	})
	defer stop()
	incoming <- syscall.SIGTERM
	incoming <- syscall.SIGUSR1 // it ends nothing
	<-ctx.Done()
	select {
	case <-s.Again():
		t.Fatal("one signal counts twice")
	default:
	}
	incoming <- syscall.SIGINT
	incoming <- syscall.SIGTERM
	select {
	case <-s.Again():
	case <-time.After(30 * time.Second):
		t.Fatal("the second signal is not heard")
	}
}
