package webpage

import (
	"encoding/json"
	"net/http"
)

// Fail answers a call of an API with an error, as JSON.
func Fail(w http.ResponseWriter, code int, err error) {
	Answer(w, code, map[string]string{"error": err.Error()})
}

// Answer answers a call of an API with JSON.
func Answer(w http.ResponseWriter, code int, answer any) {
	text, err := json.Marshal(answer)
	if err != nil {
		code, text = http.StatusInternalServerError, []byte(`{"error":"the answer is not JSON"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	_, _ = w.Write(append(text, '\n'))
}
