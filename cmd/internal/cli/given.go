package cli

import (
	"errors"
	"flag"
	"strings"
)

// given is the value of a flag that refuses an empty text: such as that of a variable which was not
// set, and which must not mean the default.
type given struct{ flag.Value }

// Set implements flag.Value.
func (g given) Set(text string) error {
	if strings.TrimSpace(text) == "" {
		return errors.New("it is empty: leave the flag out, or give it a value")
	}
	return g.Value.Set(text)
}

// IsBoolFlag reports whether the flag needs no value.
func (g given) IsBoolFlag() bool {
	b, ok := g.Value.(interface{ IsBoolFlag() bool })
	return ok && b.IsBoolFlag()
}
