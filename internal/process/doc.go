// Package process knows the processes of this machine, and which of them hang under this program.
//
//	defer process.AdoptOrphans()()
//	if err := process.Start(cmd); err != nil {
//		return err // nothing has run
//	}
//	err := process.Wait(cmd)
//
// A process whose parent has ended becomes the child of a new parent. Since AdoptOrphans that is
// this program, whatever session or user the process has, and not process 1. So Orphans finds what
// a command has left behind, and no zombie stays when this program is process 1 of a container,
// where nobody else reaps one.
//
// Only Linux tells all this. On other systems there are no orphans here.
package process
