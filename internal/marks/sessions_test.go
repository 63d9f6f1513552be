package marks_test

import (
	"fmt"
	"testing"

	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/marks/markstest"
)

// Whoever counts sessions relies on it.
func TestTheEndOfAnAdmittedSessionIsOneEvent(t *testing.T) {
	m := markstest.NewModel()
	var events []string
	a := &marks.Admission{Store: m, Authority: marks.Unverified{}, Notify: func(e marks.Event) {
		if e.Kind == marks.Opened || e.Kind == marks.Refused || e.Kind == marks.Closed {
			events = append(events, fmt.Sprintf("%s %s", e.Kind, e.Claim.Token))
		}
	}}
	admitted, refused := m.Connect(), m.Connect()
	if err := a.Admit(t.Context(), admitted.Session(), claimed(7)); err != nil {
		t.Fatal(err)
	}
	if err := a.Admit(t.Context(), refused.Session(), claimed(5)); err == nil {
		t.Fatal("an older token was admitted")
	}
	a.Release(t.Context(), refused.Session(), claimed(5)) // a guard that is not sure
	a.Release(t.Context(), admitted.Session(), claimed(7))
	a.Release(t.Context(), admitted.Session(), claimed(7))
	if got, want := fmt.Sprint(events), "[admitted 7 refused 5 closed 7]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
