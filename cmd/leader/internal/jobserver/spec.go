package jobserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/ringfence/ringfence/cmd/internal/webpage"
	"github.com/ringfence/ringfence/jobs/job"
)

// readSpec reads a job that is handed in. A field that is there and empty is refused, since it
// would mean the default.
func readSpec(r *http.Request) (spec job.Spec, err error) {
	var body json.RawMessage
	if err := webpage.ReadJSON(r, &body); err != nil {
		return spec, err
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&spec); err != nil {
		return spec, err
	}
	var fields map[string]any
	if err := json.Unmarshal(body, &fields); err != nil {
		return spec, err
	}
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		text, ok := fields[name].(string)
		if ok && strings.TrimSpace(text) == "" && !strings.EqualFold(name, "payload") {
			problems = append(problems, fmt.Errorf("%s is empty: leave it out, or give it a value", name))
		}
	}
	return spec, errors.Join(problems...)
}
