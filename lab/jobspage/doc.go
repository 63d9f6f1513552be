// Package jobspage tests the page of leader serve: the program leader, as server and as workers, on
// a real etcd, read in headless Chromium.
package jobspage
