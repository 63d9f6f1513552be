// Package etcdtest is for tests of clients of etcd: an operator's client, a cluster with users,
// and one with TLS.
package etcdtest
