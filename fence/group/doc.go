// Package group is for processes that work together: it says which of them are there.
//
//	g, err := group.New(coordinator, "settlement")
//	member, err := g.Join("host-7", []byte(`{"capacity":4}`))
//	defer member.Leave()
//	err = g.Watch(ctx, func(all []group.Member) error { … })
//
// Members are the candidates of an election that nobody cares to win, members_GROUP. So a member
// lasts as long as its coordinator session, and one that has lost its session comes back under
// another ID, which is its token. What a member was told under the earlier ID is not meant for the
// later one.
//
// That a process is a member says nothing about what it may write. Use a term for that.
package group
