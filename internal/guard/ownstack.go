package guard

import "github.com/ringfence/ringfence/internal/guard/relay"

// OnOwnStack calls f in a goroutine of its own and waits for it. A goroutine keeps the stack that
// it has grown to, and that of a session lives as long as the session; the stack that f needs goes
// with f.
func OnOwnStack(f func() error) (err error) {
	returned := make(chan struct{})
	var crash error
	go func() {
		defer close(returned)
		defer func() { crash = relay.Crashed(recover()) }()
		err = f()
	}()
	<-returned
	if crash != nil {
		panic(crash) // in the goroutine that serves this client, where it ends this one connection
	}
	return err
}
