// Package documents is for small documents that several processes share: who is to do what, how far
// it is, how a group is configured. They are in the coordinator, next to the elections.
//
//	docs := coordinator.Documents() // of any package fence/…
//	versions, err := docs.Change(ctx, documents.Change{
//		While:  []fence.Claim{term.Claim()},
//		Writes: []documents.Write{documents.Create("shop/prices/today", data)},
//	})
//
// A change is made as a whole or not at all. Each write names the version before it, so no
// writer overwrites a version that it has not read. A change may name terms: it is made only while
// all of them lead. So a leader that was deposed changes nothing, however late its request arrives.
//
// A coordinator is no database. A document has at most a few hundred kilobytes and a folder at most
// some ten thousand documents; each coordinator's package has its limits.
package documents
