package fence

import (
	"context"
)

// Elector wins terms.
type Elector interface {
	// Campaign enters holder into the election of a resource and waits until it leads or ctx ends. It
	// keeps trying after disconnections and lost sessions. The coordinator has confirmed the term that
	// Campaign returns after the win. ctx bounds the campaign, not the term. elector.CheckHolder says
	// which names a holder may have.
	//
	// Errors: ctx's cause, ErrBadResource, elector.ErrBadHolder, or an error of the coordinator that
	// retrying cannot fix, such as wrong credentials. After an error the session timeout removes what
	// is left of the campaign.
	Campaign(ctx context.Context, r Resource, holder string) (*Term, error)

	// Depose ends the term or candidacy with exactly this token, whoever holds it. It returns false if
	// there is none.
	Depose(ctx context.Context, r Resource, t Token) (bool, error)
}
