// Package ensembletest is for tests of whatever speaks to ZooKeeper: a relay that holds traffic
// back and loses replies, the ZooKeeper library without any of our code, and candidates that no
// campaign made.
package ensembletest
