// Package zookeepertest is for tests of clients of ZooKeeper: a relay that delays traffic and loses
// replies, the ZooKeeper library without our code, and candidates that no campaign has made.
package zookeepertest
