package webpage

import (
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
)

// API lets only clients with access through, and of what they post only JSON: a page in a browser
// cannot send that to another origin unasked. Without a token it refuses whatever a browser sends
// for a page of another site. A body has at most maxBody bytes.
func API(access Access, maxBody int64, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if code, why := access.Refuse(w.Header(), r); why != nil {
			Fail(w, code, why)
			return
		}
		if access.Token == "" && r.Header.Get("Sec-Fetch-Site") == "cross-site" {
			Fail(w, http.StatusForbidden, errors.New("the request comes from a page of another site"))
			return
		}
		kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
		if r.Method == http.MethodPost && kind != "application/json" {
			Fail(w, http.StatusUnsupportedMediaType, errors.New("send Content-Type: application/json"))
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		next.ServeHTTP(w, r)
	})
}

// ReadJSON reads a body that is one JSON object, without fields that are not known.
func ReadJSON(r *http.Request, into any) error {
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("there is something after the JSON object")
	}
	return nil
}
