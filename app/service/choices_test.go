package service_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/adapters/memory"
	"github.com/keel-agent/keel/app/models"
	"github.com/keel-agent/keel/app/service"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// box is a set of tools that nobody executes.
type box struct{ ports.Tools }

func (box) Specs() []ports.ToolSpec {
	return []ports.ToolSpec{{Name: "calculator"}, {Name: "time"}}
}

// loading is a set of which a tenant has tools that were listed, and another one those that were not.
type loading struct{ box }

func (loading) Load(context.Context, string, []string) []ports.ToolSpec { return nil }

func (loading) Known(_ context.Context, tenant string) []string {
	if tenant == "t" {
		return []string{"files__add_up"}
	}
	return nil
}

func (l loading) MayHave(ctx context.Context, tenant, name string) bool {
	return strings.HasPrefix(name, "files__") && (tenant != "t" || slices.Contains(l.Known(ctx, tenant), name))
}

// shop is a provider that answers nothing.
type shop struct{ ports.Provider }

func (shop) Name() string                                                      { return "shop" }
func (shop) Models(context.Context, ports.Confidential) ([]ports.Model, error) { return nil, nil }

const shelf = `{"models":[{"id":"big","maxOutput":100,"thinking":["low","high"]},{"id":"small","thinking":[]}]}`

// choosy is a service whose tenant has the models of document.
func choosy(t *testing.T, document string) (*service.Service, *counted) {
	t.Helper()
	return newService(t, func(d *service.Deps) {
		d.Tools = []ports.Tools{box{}}
		d.Models = models.New(models.Config{Settings: memory.New(memory.Config{}).Settings(), Providers: []ports.Provider{shop{}}})
		_, err := d.Models.Put(t.Context(), "t", domain.StoredPayload(document), ports.AnyRevision)
		require.NoError(t, err)
	})
}

// refused wants err to be a refusal of the code, for the field, that says all of words.
func refused(t *testing.T, err, code error, field string, words ...string) {
	t.Helper()
	require.ErrorIs(t, err, code)
	var refusal *domain.Error
	require.True(t, errors.As(err, &refusal))
	require.Equal(t, field, refusal.Field)
	for _, word := range words {
		require.ErrorContains(t, err, word)
	}
}

func TestSelectionsAreCheckedAtTheEdge(t *testing.T) {
	s, _ := choosy(t, shelf)
	submit := func(selection string) error {
		_, err := s.SubmitInput(t.Context(), ref, domain.StoredPayload(`{"text":"hi","selection":`+selection+`}`))
		return err
	}
	for _, good := range []string{
		`{}`, `{"model":"big","thinking":"low","maxTokens":100,"temperature":0.5,"tools":["time"]}`, `{"model":"small"}`, `{"tools":[]}`,
		`{"thinking":"whatever"}`, // of a session without a model, whose provider tells nothing
		`{"script":[{"text":"x"}],"more":{"any":1}}`,
	} {
		require.NoError(t, submit(good), good)
	}
	refused(t, submit(`{"model":"bgi"}`), domain.ErrUnknownModel, "selection/model", `there is no model "bgi"`, "did you mean big?")
	refused(t, submit(`{"model":"big","thinking":"medium"}`), domain.ErrInvalidRequest, "selection/thinking", "it has low, high")
	refused(t, submit(`{"model":"small","thinking":"low"}`), domain.ErrInvalidRequest, "selection/thinking", "it has none")
	refused(t, submit(`{"model":"big","maxTokens":101}`), domain.ErrInvalidRequest, "selection/maxTokens", "at most 100")
	refused(t, submit(`{"temperature":2.1}`), domain.ErrInvalidRequest, "selection/temperature")
	refused(t, submit(`{"temperature":"hot"}`), domain.ErrInvalidPayload, "selection/temperature")
	refused(t, submit(`{"tools":["time","calculatr"]}`), domain.ErrUnknownTool, "selection/tools/1", `there is no tool "calculatr"`, "did you mean calculator?")
	refused(t, submit(`{"tools":"time"}`), domain.ErrInvalidPayload, "selection/tools")
	refused(t, submit(`7`), domain.ErrInvalidPayload, "selection")
	_, err := s.SubmitInput(t.Context(), domain.SessionRef{Tenant: "t", Session: "none"}, domain.StoredPayload(`{"text":"hi","selection":{"model":"bgi"}}`))
	require.ErrorIs(t, err, domain.ErrNotFound, "what is missing comes first")
}

// A server of tools that was listed has what it listed; before that, what it is said to have is taken for true.
func TestToolsOfListedServersAreChecked(t *testing.T) {
	s, _ := newService(t, func(d *service.Deps) { d.Tools = []ports.Tools{box{}, loading{}} })
	create := func(tenant, tool string) error {
		_, _, err := s.CreateSession(t.Context(), tenant, domain.StoredPayload(`{"tools":["`+tool+`"]}`))
		return err
	}
	require.NoError(t, create("t", "files__add_up"))
	refused(t, create("t", "files__addup"), domain.ErrUnknownTool, "tools/0", `there is no tool "files__addup"`, "did you mean files__add_up?")
	require.NoError(t, create("u", "files__addup"), "nobody knows what that tenant's server has")
	_, err := s.SubmitInput(t.Context(), ref, domain.StoredPayload(`{"text":"hi","selection":{"tools":["files__add.up"]}}`))
	refused(t, err, domain.ErrUnknownTool, "selection/tools/0", "did you mean files__add_up?")
}

// What was accepted once is accepted again, whatever became of the models meanwhile.
func TestReplaysAreNotJudgedAnew(t *testing.T) {
	s, _ := choosy(t, shelf)
	ctx := t.Context()
	session := domain.StoredPayload(`{"id":"n","model":"big","tools":["time"]}`)
	input := domain.StoredPayload(`{"text":"hi","requestId":"R","selection":{"model":"big"}}`)
	first, _, err := s.CreateSession(ctx, "t", session)
	require.NoError(t, err)
	_, err = s.SubmitInput(ctx, first.Session.Ref, input)
	require.NoError(t, err)
	_, err = s.PutModelSettings(ctx, "t", domain.StoredPayload(`{"models":[{"id":"small"}]}`), 1)
	require.NoError(t, err)

	again, _, err := s.CreateSession(ctx, "t", session)
	require.NoError(t, err)
	require.False(t, again.Created)
	replay, err := s.SubmitInput(ctx, first.Session.Ref, input)
	require.NoError(t, err)
	require.False(t, replay.Created)
	_, err = s.SubmitInput(ctx, first.Session.Ref, domain.StoredPayload(`{"text":"hi","requestId":"Q","selection":{"model":"big"}}`))
	refused(t, err, domain.ErrUnknownModel, "selection/model")
	_, err = s.SubmitInput(ctx, first.Session.Ref, domain.StoredPayload(`{"text":"hi","selection":{"thinking":"low"}}`))
	require.NoError(t, err, "the session's own model is judged when the turn begins")
}

func TestSessionsAreCheckedAtTheEdge(t *testing.T) {
	s, _ := choosy(t, shelf)
	ctx := t.Context()
	create := func(body string) error {
		_, _, err := s.CreateSession(ctx, "t", domain.StoredPayload(body))
		return err
	}
	refused(t, create(`{"id":"a","model":"smal"}`), domain.ErrUnknownModel, "model", "did you mean small?")
	refused(t, create(`{"id":"a","tools":["tim"]}`), domain.ErrUnknownTool, "tools/0", "did you mean time?")
	require.NoError(t, create(`{"id":"a","model":"small"}`), "nothing was made by the refused ones")
	require.NoError(t, create(`{"id":"x","stateOwner":"external","model":"theirs","tools":["theirs"]}`), "another backend has its own")

	patch := func(session, body string) error {
		_, _, err := s.PatchSession(ctx, domain.SessionRef{Tenant: "t", Session: session}, domain.StoredPayload(body))
		return err
	}
	refused(t, patch("a", `{"model":"bg"}`), domain.ErrUnknownModel, "model", "did you mean big?")
	require.NoError(t, patch("a", `{"model":"big"}`))
	require.NoError(t, patch("a", `{"model":null}`))
	require.NoError(t, patch("x", `{"model":"theirs, too"}`))
	require.ErrorIs(t, patch("none", `{"model":"bg"}`), domain.ErrNotFound)

	// The level is held against the model of the session.
	require.NoError(t, create(`{"id":"b","model":"big"}`))
	_, err := s.SubmitInput(ctx, domain.SessionRef{Tenant: "t", Session: "b"}, domain.StoredPayload(`{"text":"hi","selection":{"thinking":"medium"}}`))
	refused(t, err, domain.ErrInvalidRequest, "selection/thinking")
}

func TestModelSettingsNeedACatalogue(t *testing.T) {
	s, _ := newService(t, nil)
	_, err := s.ModelSettings(t.Context(), "t")
	require.ErrorIs(t, err, domain.ErrNotFound)
	_, err = s.PutModelSettings(t.Context(), "t", domain.StoredPayload(`{}`), 0)
	require.ErrorIs(t, err, domain.ErrNotFound)
	features, _, _ := s.Capabilities()
	require.False(t, features["settings.models"])
	s, _ = choosy(t, shelf)
	features, _, _ = s.Capabilities()
	require.True(t, features["settings.models"])
}
