// Package endtoend tests the whole system: the guard and leader programs as processes, with real
// ZooKeeper, Postgres and Redis servers, and with processes that are paused and killed.
package endtoend
