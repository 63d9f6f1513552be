// Package election reads elections in ZooKeeper: the znodes and their content, the candidates in
// order of token, and the issuer. fence/zookeeper uses it to hold elections, and
// the documents of fence/zookeeper to let only leaders write. The documentation of fence/zookeeper shows the
// layout.
//
// # One token, one candidate
//
// All znodes that one multi request creates have the same czxid. Ringfence creates each candidate
// with a request of its own. If another program creates two at once, two processes have one token,
// and no store can tell them apart. So neither leads: if the first two candidates of an election
// have one czxid, Leaders, Candidates, Watch and the documents return an
// error. A campaign that finds such a candidate after it has enrolled ends with an error too.
package election
