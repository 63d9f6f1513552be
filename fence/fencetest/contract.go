package fencetest

import (
	"testing"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
	"github.com/ringfence/ringfence/internal/test/contract"
)

// Fixture connects the contract to a coordinator. Open, Alone and SessionTimeout are required. Cut
// to LoseReply are faults; clauses that need a missing one are skipped and name it. The rest makes
// tests stronger where the server allows it.
type Fixture struct {
	// Open makes a client that shares no connection and no session with another, like a separate
	// process. The contract closes the client; Open releases everything else in t.Cleanup.
	Open func(t testing.TB) elector.Coordinator

	// Alone makes two clients, like Open, of a coordinator that no other test uses, because the
	// test renews its issuer and terms may be lost. The contract closes both.
	Alone func(t testing.TB) (c, operator elector.Coordinator)

	// SessionTimeout is the timeout that the coordinator grants. Sessions must last on a busy
	// machine, and some tests wait until one expires; ten seconds suit both.
	SessionTimeout time.Duration

	// Cut silently drops everything between this client and the coordinator, in both directions.
	// New connections fail or stay silent. Heal ends the cut.
	Cut, Heal func(t testing.TB, c elector.Coordinator)

	// Drop breaks every connection between this client and the coordinator. Unless the client is
	// cut off, it may connect again at once.
	Drop func(t testing.TB, c elector.Coordinator)

	// Expire ends all sessions of this client at the coordinator, which can tell the client so.
	Expire func(t testing.TB, c elector.Coordinator)

	// Delete removes a candidate's entry at the coordinator, without using the client.
	Delete func(t testing.TB, r fence.Resource, token fence.Token)

	// LoseReply loses the reply to the client's next enrolment, which reaches the coordinator.
	LoseReply func(t testing.TB, c elector.Coordinator)

	// Forget makes the coordinator drop all history that it does not need, such as the revisions
	// before the present one. A client that was cut off cannot learn later what it has missed. May
	// be nil.
	Forget func(t testing.TB)

	// Sessions returns how many sessions at the coordinator hold the candidates of these elections.
	// All candidates of one client must share one. May be nil.
	Sessions func(t testing.TB, rs ...fence.Resource) int

	// Elections is how many elections one client leads at once in a test. Default 1000.
	Elections int

	patience time.Duration // of a stage; see newStage
}

// Run checks a coordinator against the contract.
func Run(t *testing.T, f Fixture) {
	// Not in parallel with other clauses, because it counts goroutines.
	t.Run("closing leaves no goroutine", func(t *testing.T) { closeLeavesNoGoroutine(t, f) })
	contract.RunParallel(t, clauses, func(t *testing.T) *stage { return newStage(t, f) })
}

var clauses = []contract.Clause[*stage]{
	{Name: "a term says who won what", Holds: termSaysWhoWonWhat},
	{Name: "tokens of successive terms rise", Holds: tokensRise},
	{Name: "a candidate has an identity of its own", Holds: candidatesHaveIdentities},
	{Name: "there is at most one active term", Holds: atMostOneTerm},
	{Name: "one client may lead several resources", Holds: oneClientManyResources},
	{Name: "one session carries a thousand elections", Holds: oneSessionManyElections},
	{Name: "a holder is any text", Holds: holderIsAnyText},
	{Name: "a holder may be empty, or as long as the limit", Holds: holderOfAnyLength},
	{Name: "a holder over the limit is refused, and nothing is lost", Holds: holderOverTheLimit},
	{Name: "a waiting candidate has no term", Holds: waitingCandidateHasNoTerm},
	{Name: "resigning lets the next in at once", Holds: resignLetsTheNextIn},
	{Name: "a late resign cannot touch a newer term", Holds: lateResignCannotTouchNewerTerm},
	{Name: "deposing takes the exact token", Holds: deposeTakesTheExactToken},
	{Name: "a deposed candidate enrols again at the tail", Holds: deposedCandidateEnrolsAgain},
	{Name: "a deposed leader cannot acknowledge", Holds: deposedLeaderCannotAcknowledge},
	{Name: "a cancelled campaign leaves nothing behind", Holds: cancelledCampaignLeavesNothing},
	{Name: "a death in the middle of the queue lets nobody lead", Holds: deathInTheMiddle},
	{Name: "closing loses the terms", Holds: closeLosesTerms},
	{Name: "candidates are listed in order", Holds: candidatesInOrder},
	{Name: "only an acknowledged leader is ready", Holds: onlyAcknowledgedIsReady},
	{Name: "the first candidate leads, whoever waits", Holds: firstOfSeveralLeads},
	{Name: "the next one leads at once", Holds: nextLeadsAtOnce},
	{Name: "leaders come in the order of the resources", Holds: leadersComeInOrder},
	{Name: "leaders agree with the candidates", Holds: leadersAgreeWithCandidates},
	{Name: "a lost term is not named", Holds: lostTermIsNotNamed},
	{Name: "watching sees every standing change", Holds: watchSeesChanges},
	{Name: "watching ends with its context or its callback", Holds: watchEnds},
	{Name: "the issuer is one and stable", Holds: issuerIsOne},
	{Name: "a bad resource is refused", Holds: badResourceIsRefused},
	{Name: "leaders come with today's issuer", Holds: leadersComeWithTodaysIssuer},
	{Name: "a renewed issuer is another one", Holds: renewedIssuerIsAnother},
	{Name: "a closed client renews nothing", Holds: closedClientRenewsNothing},

	{Name: "a short cut suspends and resumes the same term", Holds: shortCutSuspends},
	{Name: "a long cut expires the term before the next one starts", Holds: longCutExpires},
	{Name: "a starved process knows whether it leads", Holds: starvedProcess,
		Alone: true},
	{Name: "a cut candidate in the middle lets nobody lead and comes back", Holds: cutInTheMiddle},
	{Name: "a campaign that is cancelled out of reach leaves nothing behind",
		Holds: cancelledOutOfReachLeavesNothing},
	{Name: "observing survives a cut", Holds: observingSurvivesACut},
	{Name: "watching and waiting survive lost connections and lost history",
		Holds: watchingSurvivesReconnects},
	{Name: "a resignation without the coordinator still ends the term", Holds: resignOutOfReach},
	{Name: "a resignation out of reach arrives when the coordinator is back",
		Holds: resignationArrives},
	{Name: "an expired session ends the term", Holds: expiredSessionEndsTheTerm},
	{Name: "an expired candidate enrols again at the tail", Holds: expiredCandidateEnrolsAgain},
	{Name: "deleting the leader's entry deposes it", Holds: deletedLeaderIsDeposed},
	{Name: "deleting a waiting entry lets nobody lead", Holds: deletedCandidateEnrolsAgain},
	{Name: "an enrolment whose reply was lost happens once", Holds: lostReplyEnrolsOnce},
	{Name: "a client that is cut off names no leader", Holds: cutClientNamesNobody},
	{Name: "a leader whose session has expired is not named", Holds: expiredLeaderIsNotNamed},
	{Name: "a leader whose entry was deleted is not named", Holds: deletedLeaderIsNotNamed},
}
