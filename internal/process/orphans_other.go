//go:build unix && !linux

package process

import "fmt"

// AdoptOrphans does nothing: on this system the first process reaps orphans.
func AdoptOrphans() (stop func()) { return func() {} }

// String says which group it is, as no more is known on this system.
func (p Process) String() string { return fmt.Sprintf("group %d", p.Group) }
