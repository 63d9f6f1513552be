// Package cluster is the part of an etcd client that elections and checkpoints share: the URL, the
// connection, requests that are repeated until a member answers, the identity of the cluster, and
// the keys.
//
//	<prefix>/issuer                                        a random identity
//	<prefix>/elections/<resource>/<lease id>.<random>      a candidate, under its lease
//	<prefix>/checkpoints/<task>                            a checkpoint
//	<prefix>/documents/<path>                              a document
//
// The token of a candidate is the create revision of its key. The candidate with the lowest token
// leads.
package cluster
