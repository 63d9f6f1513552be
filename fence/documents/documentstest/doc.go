// Package documentstest checks stores of documents, and has one in memory.
//
//	documentstest.Run(t, documentstest.Fixture{Open: open})
package documentstest
