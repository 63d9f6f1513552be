package readonly

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/ringfence/ringfence/internal/guard/postgres/wire"
)

// A ReadyForQuery answers one message. One more would count as the answer to the next one.
func TestAnAnswerWithoutAQuestionEndsASessionWithoutAToken(t *testing.T) {
	r := &Session{reported: map[string]string{
		"default_transaction_read_only": "on", "standard_conforming_strings": "on", "is_superuser": "off",
	}}
	ready := wire.Encode(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	if _, err := r.answered(ready); err == nil || !strings.Contains(err.Error(), "answers nothing") {
		t.Errorf("an answer to nothing: %v", err)
	}
	r.asked = true
	if _, err := r.answered(ready); err != nil {
		t.Errorf("an answer: %v", err)
	}
}
