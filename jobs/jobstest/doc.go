// Package jobstest checks that jobs are handed out as package jobs promises, on a coordinator.
//
//	jobstest.Run(t, jobstest.Fixture{Open: open})
package jobstest
