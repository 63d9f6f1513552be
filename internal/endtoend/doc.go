// Package endtoend tests the whole of Ringfence as people run it: the guard and leader programs in processes of their
// own, on real ZooKeeper, Postgres and Redis, with processes that are paused and killed.
package endtoend
