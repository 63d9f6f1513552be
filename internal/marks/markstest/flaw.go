package markstest

// flaw is one way in which a store can be wrong. The package's own test gives each flaw to the
// Model, because a contract that never fails proves nothing.
type flaw string

const (
	admitsBesideOthers flaw = "admits while a session under an older token is recorded"
	raiseLowers        flaw = "lets a raise lower the mark"
	forgetsOnly        flaw = "revokes by dropping records, and ends no session"
	releasesLive       flaw = "drops the record of a released session that still lives"
	releasesAlike      flaw = "drops the records of all released sessions if one of them has ended"
	adoptSpares        flaw = "adopts and leaves the old issuer's sessions alive"
	comparesFloats     flaw = "compares tokens as floats"
	comparesText       flaw = "compares tokens as text"
	raisesLate         flaw = "raises although the server has restarted since the confirmation"
	forgetsCandidates  flaw = "takes another candidate with the mark's number for the mark's own"
	forgetsRollback    flaw = "forgets that the coordinator was rolled back"
	takesAnyRun        flaw = "registers a session of an earlier run of the server"
)
