package agent

import (
	"errors"
	"net/http"
	"strings"

	"github.com/ringfence/ringfence/cmd/internal/webpage"
)

var (
	errNoPlace = errors.New("the agent stops, or has too many streams; nothing was done: try again")
	errNoTerm  = errors.New("this agent has no such term: it may be over")
)

// fail answers with an error.
func fail(w http.ResponseWriter, err error) {
	code := http.StatusBadRequest
	large := new(http.MaxBytesError)
	switch {
	case errors.Is(err, errNoPlace):
		w.Header().Set("Retry-After", "10")
		code = http.StatusServiceUnavailable
	case errors.Is(err, errNoTerm):
		code = http.StatusNotFound
	case errors.As(err, &large):
		code = http.StatusRequestEntityTooLarge
	}
	webpage.Fail(w, code, err)
}

func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }
