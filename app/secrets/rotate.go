package secrets

import (
	"context"
	"errors"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// Rotation counts what Rotate did.
type Rotation struct {
	Resealed int // under the current key now
	Current  int // were so before
	Failed   int // could not be opened, and were left as they are
}

// rotatePage is how many secrets Rotate reads at a time.
const rotatePage = 100

// Rotate seals all secrets of all tenants under the current key. It tells of each one that its keyring cannot open, and
// after each page how far it is. It may be ended and begun again at any time, and beside a server: what a client has put
// meanwhile stays.
func (v *Vault) Rotate(ctx context.Context, failed func(s ports.SealedSecret, err error), progress func(Rotation)) (Rotation, error) {
	var n Rotation
	for tenant, after := "", ""; ; {
		page, err := v.store.All(ctx, tenant, after, rotatePage)
		if err != nil {
			return n, err
		}
		for _, s := range page {
			if err := v.rotate(ctx, s, &n, failed); err != nil {
				return n, err
			}
		}
		progress(n)
		if len(page) < rotatePage {
			return n, nil
		}
		last := page[len(page)-1]
		tenant, after = last.Tenant, last.Name
	}
}

// rotate seals s under the current key, and again when somebody else has written it meanwhile.
func (v *Vault) rotate(ctx context.Context, s ports.SealedSecret, n *Rotation, failed func(ports.SealedSecret, error)) error {
	for {
		if s.KeyID == v.keys.current {
			n.Current++
			return nil
		}
		value, err := v.keys.open(s)
		if err != nil {
			n.Failed++
			failed(s, err)
			return nil
		}
		done, err := v.store.Reseal(ctx, s, v.keys.seal(s, value.Reveal()))
		if done {
			n.Resealed++
		}
		if done || err != nil {
			return err
		}
		s, err = v.store.Get(ctx, s.Tenant, s.Name)
		if errors.Is(err, domain.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
