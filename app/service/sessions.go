package service

import (
	"context"
	"strings"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// CreateSession makes the session that body describes: {title?, model?, system?, tools?, metadata?, stateOwner?, id?}.
// Unknown members are kept for the comparison of a retry and mean nothing else. A retry with the same id and an equal
// body returns the session as it is now, with Created false; another body under the id is ErrIdempotencyConflict. A model or a tool that there is not
// is ErrUnknownModel or ErrUnknownTool.
func (s *Service) CreateSession(ctx context.Context, tenant string, request domain.Payload) (domain.Outcome, domain.Totals, error) {
	ref := domain.SessionRef{Tenant: tenant}
	cmd, err := s.createCommand(&ref, request)
	if err != nil {
		return domain.Outcome{}, domain.Totals{}, err
	}
	if cmd.Refusal, err = refusal(s.checkInfo(ctx, tenant, cmd)); err != nil {
		return domain.Outcome{}, domain.Totals{}, err
	}
	out, err := s.ledger.Do(ctx, ref, cmd)
	if err != nil {
		return domain.Outcome{}, domain.Totals{}, err
	}
	return s.withUsage(ctx, out)
}

// checkInfo returns why a session cannot be as it is asked for. What belongs to another backend is not judged.
func (s *Service) checkInfo(ctx context.Context, tenant string, cmd domain.CreateSession) error {
	if cmd.StateOwner == domain.External {
		return nil
	}
	if err := s.checkModel(ctx, tenant, cmd.Info.Model); err != nil {
		return err
	}
	return s.checkTools(ctx, tenant, cmd.Info.Tools)
}

// createCommand reads request and completes ref with the session's id, minted when the client gave none.
func (s *Service) createCommand(ref *domain.SessionRef, request domain.Payload) (domain.CreateSession, error) {
	b, err := parseBody(request)
	if err != nil {
		return domain.CreateSession{}, err
	}
	cmd := domain.CreateSession{At: s.now(), Request: request}
	text := func(name string) (v string) {
		if err == nil {
			v, err = b.text(name)
		}
		return v
	}
	cmd.Info.Title, cmd.Info.Model, cmd.Info.System = text("title"), text("model"), text("system")
	cmd.StateOwner = domain.StateOwner(text("stateOwner"))
	if err == nil {
		cmd.Info.Tools, err = b.ids("tools")
	}
	if err == nil {
		cmd.Info.Metadata, err = b.object("metadata")
	}
	if err == nil {
		ref.Session, err = b.id("id")
	}
	switch {
	case err != nil:
		return domain.CreateSession{}, err
	case cmd.StateOwner != "" && cmd.StateOwner != domain.Native && cmd.StateOwner != domain.External:
		return domain.CreateSession{}, domain.ErrInvalidRequest.At("stateOwner").With("must be native or external")
	case strings.ContainsAny(ref.Session, `/\`) || ref.Session == "." || ref.Session == "..":
		return domain.CreateSession{}, domain.ErrInvalidRequest.At("id").With("must be one segment of a path: without / and \\, and neither . nor ..")
	case ref.Session == "":
		ref.Session = s.ids.New()
		cmd.Request = request.With("id", quote(ref.Session))
	}
	return cmd, nil
}

// GetSession returns the session, its active run, and the tokens and the money that its answers used.
func (s *Service) GetSession(ctx context.Context, ref domain.SessionRef) (domain.Outcome, domain.Totals, error) {
	session, run, err := s.sessions.Get(ctx, ref)
	if err != nil {
		return domain.Outcome{}, domain.Totals{}, err
	}
	return s.withUsage(ctx, domain.Outcome{Session: session, Run: run})
}

// ListSessions returns one page of a tenant's sessions, newest first, the active runs among them by id, and the cursor
// of the next page, "" after the last. q.Limit 0 means the default.
func (s *Service) ListSessions(
	ctx context.Context, q ports.SessionQuery, cursor string,
) (items []domain.Session, active map[string]domain.Run, next string, err error) {
	switch q.State {
	case "", domain.SessionOpen, domain.SessionClosing, domain.SessionClosed:
	default:
		return nil, nil, "", domain.ErrInvalidRequest.At("state").With("must be open, closing or closed")
	}
	if cursor != "" {
		p, err := decodePosition(cursor, sessionsList)
		if err != nil {
			return nil, nil, "", err
		}
		q.Before = &ports.SessionCursor{CreatedAtMS: p.CreatedAtMS, Session: p.ID}
	}
	size := pageSize(q.Limit, sessionsPageDefault, sessionsPageMax)
	q.Limit = size + 1
	if items, err = s.sessions.List(ctx, q); err != nil {
		return nil, nil, "", err
	}
	if len(items) > size {
		items = items[:size]
		last := items[size-1]
		next = position{List: sessionsList, CreatedAtMS: last.CreatedAt.UnixMilli(), ID: last.Ref.Session}.encode()
	}
	active, err = s.activeRuns(ctx, items)
	return items, active, next, err
}

// activeRuns returns the active runs of sessions of one tenant, by id. One that began after its row was read goes by an id
// that the row does not name.
func (s *Service) activeRuns(ctx context.Context, sessions []domain.Session) (map[string]domain.Run, error) {
	var ids []string
	for _, row := range sessions {
		if row.ActiveRun != "" {
			ids = append(ids, row.Ref.Session)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	runs, err := s.runs.Active(ctx, sessions[0].Ref.Tenant, ids)
	active := make(map[string]domain.Run, len(runs))
	for _, run := range runs {
		active[run.ID] = run
	}
	return active, err
}

// PatchSession changes title, model and metadata as far as patch names them; null clears. Metadata is replaced whole.
// Another member of a session is ErrInvalidRequest, one that sessions do not have means nothing.
func (s *Service) PatchSession(ctx context.Context, ref domain.SessionRef, patch domain.Payload) (domain.Outcome, domain.Totals, error) {
	cmd, err := patchCommand(patch)
	if err != nil {
		return domain.Outcome{}, domain.Totals{}, err
	}
	if cmd == (domain.PatchSession{}) {
		return s.GetSession(ctx, ref)
	}
	if err := s.checkPatch(ctx, ref, cmd); err != nil {
		return domain.Outcome{}, domain.Totals{}, err
	}
	out, err := s.ledger.Do(ctx, ref, cmd)
	if err != nil {
		return domain.Outcome{}, domain.Totals{}, err
	}
	return s.withUsage(ctx, out)
}

// checkPatch returns ErrUnknownModel when a native session is to have a model that there is not.
func (s *Service) checkPatch(ctx context.Context, ref domain.SessionRef, cmd domain.PatchSession) error {
	if cmd.Model == nil || *cmd.Model == "" || s.models == nil {
		return nil
	}
	session, _, err := s.sessions.Get(ctx, ref)
	if err != nil || session.StateOwner != domain.Native {
		return err
	}
	return s.checkModel(ctx, ref.Tenant, *cmd.Model)
}

// fixed are the members of a session that no patch changes.
var fixed = []string{
	"id", "state", "stateOwner", "system", "tools", "parent", "forkedFrom", "headSeq", "activeRun", "usage", "createdAt",
}

func patchCommand(patch domain.Payload) (cmd domain.PatchSession, err error) {
	b, err := parseBody(patch)
	if err != nil {
		return cmd, err
	}
	for _, name := range fixed {
		if _, ok := b[name]; ok {
			return cmd, domain.ErrInvalidRequest.At(name).With("cannot be changed; only title, model and metadata can")
		}
	}
	if cmd.Title, err = b.patch("title"); err != nil {
		return cmd, err
	}
	if cmd.Model, err = b.patch("model"); err != nil {
		return cmd, err
	}
	if _, ok := b["metadata"]; ok {
		v, err := b.object("metadata")
		if err != nil {
			return cmd, err
		}
		cmd.Metadata = &v
	}
	return cmd, nil
}

// CloseSession ends the session: at once, or through closing while a run is active. Closing again changes nothing.
func (s *Service) CloseSession(ctx context.Context, ref domain.SessionRef) (domain.Outcome, domain.Totals, error) {
	out, err := s.ledger.Do(ctx, ref, domain.CloseSession{})
	if err == nil {
		err = s.cancelChildren(ctx, ref)
	}
	if err != nil {
		return domain.Outcome{}, domain.Totals{}, err
	}
	return s.withUsage(ctx, out)
}
