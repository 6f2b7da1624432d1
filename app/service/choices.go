package service

import (
	"context"
	"errors"
	"slices"
	"strconv"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// Models keeps the catalogues of tenants.
type Models interface {
	// Resolve returns what model stands for, "" being the tenant's default, and the tenant's defaults. It returns
	// domain.ErrUnknownModel, which names what is like it.
	Resolve(ctx context.Context, tenant, model string) (domain.Model, domain.ModelDefaults, error)

	// Settings returns a tenant's catalogue as it is now.
	Settings(ctx context.Context, tenant string) (domain.ModelSettings, error)

	// Put replaces a tenant's document, with the promise of ports.Settings. It returns domain.ErrInvalidRequest or
	// domain.ErrUnknownModel for one that cannot hold.
	Put(ctx context.Context, tenant string, document domain.Payload, expected int64) (domain.ModelSettings, error)
}

// refusal parts what is wrong with a choice, for which a command is refused unless it was accepted before, from what
// went wrong in finding out.
func refusal(err error) (refused, fault error) {
	if e, ok := errors.AsType[*domain.Error](err); ok {
		return e, nil
	}
	return nil, err
}

// at names the member at fault in a refusal; the member that it names already is within path.
func at(path string, err error) error {
	e, ok := errors.AsType[*domain.Error](err)
	switch {
	case !ok:
		return err
	case e.Field != "" && path != "":
		return e.At(path + "/" + e.Field)
	case path != "":
		return e.At(path)
	}
	return e
}

// checkModel returns ErrUnknownModel when a session of tenant cannot have the model; "" chooses none.
func (s *Service) checkModel(ctx context.Context, tenant, model string) error {
	if model == "" || s.models == nil {
		return nil
	}
	_, _, err := s.models.Resolve(ctx, tenant, model)
	return at("model", err)
}

// checkTools returns ErrUnknownTool for the first of names that no set of tools has for a tenant.
func (s *Service) checkTools(ctx context.Context, tenant string, names []string) error {
	if len(s.tools) == 0 || len(names) == 0 {
		return nil
	}
	known := s.knownTools(ctx, tenant)
	for i, name := range names {
		if !slices.Contains(known, name) && !s.mayCome(ctx, tenant, name) {
			return domain.ErrUnknownTool.At("tools/" + strconv.Itoa(i)).With(
				"there is no tool " + quote(name) + domain.Near(name, known))
		}
	}
	return nil
}

// knownTools returns the names of the tools that there are for a tenant, sorted, as far as they are known.
func (s *Service) knownTools(ctx context.Context, tenant string) []string {
	var known []string
	for _, set := range s.tools {
		if loading, ok := set.(ports.LoadingTools); ok {
			known = append(known, loading.Known(ctx, tenant)...)
			continue
		}
		for _, spec := range set.Specs() {
			known = append(known, spec.Name)
		}
	}
	slices.Sort(known)
	return slices.Compact(known)
}

// mayCome reports whether a set that is still loading may have the tool.
func (s *Service) mayCome(ctx context.Context, tenant, name string) bool {
	return slices.ContainsFunc(s.tools, func(set ports.Tools) bool {
		loading, ok := set.(ports.LoadingTools)
		return ok && loading.MayHave(ctx, tenant, name)
	})
}

// checkSelection returns why the turn of an input cannot have what it selects. What the session itself chose is judged
// when the turn begins.
func (s *Service) checkSelection(ctx context.Context, ref domain.SessionRef, b body) error {
	raw := b["selection"]
	if len(raw) == 0 || raw[0] != '{' {
		return nil // none, or not of the shape that the ledger takes
	}
	chosen, err := domain.ParseSelection(string(raw))
	if err == nil {
		err = s.checkTools(ctx, ref.Tenant, chosen.Tools)
	}
	if err == nil && s.models != nil {
		err = s.checkTurn(ctx, ref, chosen)
	}
	return at("selection", err)
}

// checkTurn holds what is chosen against the model that is in force.
func (s *Service) checkTurn(ctx context.Context, ref domain.SessionRef, chosen domain.Selection) error {
	if chosen.Model == "" && chosen.Thinking == "" && chosen.MaxTokens == 0 {
		return domain.Model{}.Check(chosen)
	}
	model := chosen.Model
	if model == "" {
		session, _, err := s.sessions.Get(ctx, ref)
		if err != nil {
			return err
		}
		model = session.Model
	}
	m, _, err := s.models.Resolve(ctx, ref.Tenant, model)
	switch {
	case err == nil:
		return m.Check(chosen)
	case chosen.Model == "" && errors.Is(err, domain.ErrUnknownModel):
		return nil
	}
	return at("model", err)
}

// ModelSettings returns the catalogue of a tenant, or ErrNotFound in a deployment that has none.
func (s *Service) ModelSettings(ctx context.Context, tenant string) (domain.ModelSettings, error) {
	if s.models == nil {
		return domain.ModelSettings{}, domain.ErrNotFound
	}
	return s.models.Settings(ctx, tenant)
}

// PutModelSettings replaces a tenant's document of the catalogue, if its revision is the expected one;
// ports.AnyRevision expects nothing. It returns ErrRevisionConflict when it is another.
func (s *Service) PutModelSettings(ctx context.Context, tenant string, document domain.Payload, expected int64) (domain.ModelSettings, error) {
	if s.models == nil {
		return domain.ModelSettings{}, domain.ErrNotFound
	}
	return s.models.Put(ctx, tenant, document, expected)
}
