// Package election has what fence/zookeeper, which holds elections, and checkpoint/zookeeper, which
// lets only leaders write, both need to know of an election: where its znodes are and what they
// hold, the candidates in order of token, and the issuer. The documentation of fence/zookeeper
// shows the layout.
//
// # One token, one candidate
//
// All znodes that one multi creates have the same czxid. Ringfence creates each candidate by a
// request of its own; another program that makes two at once would give two processes one token,
// and no store can tell these apart. So neither leads: where the first two of an election have one
// czxid, Leaders, Candidates, Watch and the journal of checkpoint/zookeeper return an error. A
// campaign looks for such a candidate beside its own when it has enrolled, and ends with an error
// too.
package election
