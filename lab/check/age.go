package check

import "github.com/ringfence/ringfence/lab/history"

// age is what tokens are compared by.
type age = history.Age
