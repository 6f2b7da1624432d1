package sqlstore_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/keel-agent/keel/adapters/sqlstore"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/domain/domaintest"
)

var moment = time.Date(2030, 1, 2, 3, 4, 5, 678e6, time.UTC)

// Every field is set, so that a forgotten column shows.
func TestSessionRow(t *testing.T) {
	s := domain.Session{
		Ref: domain.SessionRef{Tenant: "t", Session: "s"}, CreatedAt: moment, CreateRequest: domaintest.Payload(`{"a":1}`),
		SessionInfo: domain.SessionInfo{
			Title: "a\x00b", Model: "m", System: "\xff", Tools: []string{"x", ""}, Metadata: domaintest.Payload(`{"k":"v"}`),
		},
		State: domain.SessionClosing, StateOwner: domain.External,
		Parent:     &domain.Parent{Session: "ps", Run: "pr", Call: "pc"},
		ForkedFrom: &domain.Origin{Session: "o", Seq: 3},
		Version:    7, Owner: "p", Epoch: 4, HeadSeq: 9, HeadAt: moment.Add(time.Millisecond), HeadHash: domain.Hash{1, 2, 3},
		Fold: domain.Fold{
			Unanswered: []domain.Seq{1, 200}, Guides: []domain.Seq{200}, TurnInputs: []domain.Seq{1},
			Owed: domain.OwedCalls, OpenCalls: 2, KeptSeq: 5, LegacyWatermark: 1,
		},
		ActiveRun: "r",
	}
	for name, s := range map[string]domain.Session{"full": s, "bare": {CreatedAt: moment, Fold: domain.Fold{Owed: domain.OwedNone}}} {
		got, err := sqlstore.NewSessionRow(&s).Session()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(&s, got, cmp.Comparer(samePayload)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func samePayload(a, b domain.Payload) bool { return a == b }

func TestRunRow(t *testing.T) {
	r := domain.Run{
		ID: "r", Ref: domain.SessionRef{Tenant: "t", Session: "s"}, CreatedAt: moment, Status: domain.StatusFailed,
		Reason: domain.ReasonPermanent, Error: "a\x00b", Owner: "p", Epoch: 3, Attempts: 2, AvailableAt: moment, Parked: true,
		Wait: `{"w":1}`, Signals: 5, Compact: true, ClaimSeq: new(domain.Seq(0)), CancelSeq: new(domain.Seq(8)),
		NextRunID: "n", PendingInput: true, ReadWatermark: 6,
		Ended:     domain.Ended{Epoch: 2, Command: "settle", Status: domain.StatusPending},
		SettledAt: moment,
	}
	for name, r := range map[string]domain.Run{"full": r, "bare": {CreatedAt: moment, AvailableAt: moment}} {
		got, err := sqlstore.NewRunRow(&r).Run()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(&r, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestEventAndCallRow(t *testing.T) {
	e := domain.Event{
		Seq: 3, Kind: domain.UserMessage, Key: "requestId:r", Payload: domaintest.Payload(`{}`), CreatedAt: moment,
		Hash: domain.Hash{9}, RunID: "r", Epoch: 2,
	}
	if got, err := sqlstore.NewEventRow(domain.SessionRef{}, &e).Event(); err != nil || got != e {
		t.Errorf("event %+v, error %v", got, err)
	}
	c := domain.ToolCall{ID: "c\x00", AssistantSeq: 2, Ordinal: 1, Name: "n\x00", StartedEpoch: new(int64(4)), ResultSeq: 7}
	got, err := sqlstore.NewCallRow(domain.SessionRef{}, &c).Call()
	if diff := cmp.Diff(c, got); err != nil || diff != "" {
		t.Errorf("call %s, error %v", diff, err)
	}
}

func TestCorruptRowsAreReported(t *testing.T) {
	for name, spoil := range map[string]func(*sqlstore.SessionRow){
		"seqs":  func(r *sqlstore.SessionRow) { r.Unanswered = "[1,x]" },
		"array": func(r *sqlstore.SessionRow) { r.Guides = "1" },
		"hash":  func(r *sqlstore.SessionRow) { r.HeadHash = []byte{1} },
		"tools": func(r *sqlstore.SessionRow) { r.Tools = new("{") },
		"title": func(r *sqlstore.SessionRow) { r.Title = "\x01" },
	} {
		row := sqlstore.NewSessionRow(&domain.Session{})
		spoil(row)
		if _, err := row.Session(); !errors.Is(err, sqlstore.ErrCorrupt) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	row := sqlstore.NewRunRow(&domain.Run{})
	row.EndedOutcome = new("settled")
	if _, err := row.Run(); !errors.Is(err, sqlstore.ErrCorrupt) {
		t.Errorf("error %v", err)
	}
}
