package domain_test

import (
	"errors"
	"testing"

	"github.com/keel-agent/keel/domain"
)

// fuzzShape feeds a parser with what ParsePayload lets pass. A payload is refused as such or has the shape of kind k,
// and the parser never panics.
func fuzzShape(f *testing.F, k domain.Kind, parse func(domain.Payload) error, seeds ...string) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		p, err := domain.ParsePayload(raw, 0)
		if err != nil {
			p = domain.StoredPayload(string(raw)) // a parser trusts its text, and yet it must not panic
		}
		got := parse(p)
		if got != nil && !errors.Is(got, domain.ErrInvalidPayload) {
			t.Fatalf("%s: %v", p, got)
		}
		if shape := domain.CheckShape(k, p); (shape == nil) != (got == nil) {
			t.Fatalf("%s: %v, but CheckShape says %v", p, got, shape)
		}
	})
}

func FuzzParseInput(f *testing.F) {
	fuzzShape(f, domain.UserMessage, func(p domain.Payload) error {
		in, err := domain.ParseInput(p)
		if err == nil {
			_, _ = domain.ParseSelection(in.Selection)
		}
		return err
	}, `{"text":"t","requestId":"r","delivery":"guide","selection":{"tools":["a"]},"retryOf":1e0,"content":[{"type":"text","text":""}]}`,
		`{"content":[{"type":"image"},{}]}`, `{"delivery":`, `{"text":"\ud83d"}`)
}

func FuzzParseAssistant(f *testing.F) {
	fuzzShape(f, domain.AssistantMessage, func(p domain.Payload) error {
		m, err := domain.ParseAssistant(p)
		if err != nil {
			return err
		}
		_, _ = m.Payload(0)
		return nil
	}, `{"content":[{"type":"toolCall","id":"c","name":"n","arguments":{"a":[1.0]}}],"inputSeqs":[1,2],"stopReason":"tool_use","usage":{"input":1}}`,
		`{"stopReason":"error","content":[{"type":"thinking","thinking":"","signature":"\u0000"}]}`, `{"inputSeqs":[`)
}

func FuzzParseToolOutput(f *testing.F) {
	fuzzShape(f, domain.ToolResult, func(p domain.Payload) error {
		_, err := domain.ParseToolOutput(p)
		return err
	}, `{"toolCallId":"c","content":[{"type":"text","text":"d\u0000"}],"isError":true,"durationMs":1,"interrupted":true}`, `{"toolCallId":"c"`)
}

// FuzzApply applies any payload as any kind to a transcript that holds something of everything.
func FuzzApply(f *testing.F) {
	f.Add(byte(0), []byte(`{"text":"x","retryOf":1}`))
	f.Add(byte(1), []byte(`{"content":[{"type":"toolCall","id":"c","name":"n"}],"inputSeqs":[1,4,9],"stopReason":"tool_use"}`))
	f.Add(byte(2), []byte(`{"toolCallId":"c1"}`))
	f.Add(byte(3), []byte(`{"summary":" ","firstKeptSeq":99}`))
	f.Add(byte(4), []byte(`{"status":"cancelled"}`))
	f.Fuzz(func(t *testing.T, kind byte, raw []byte) {
		p, err := domain.ParsePayload(raw, 0)
		if err != nil {
			return
		}
		tr := domain.NewTranscript()
		base := history(user, `{}`, answer, `{"content":[{"type":"toolCall","id":"c1","name":"n"}],"inputSeqs":[1],"stopReason":"tool_use"}`, user, `{}`)
		kinds := domain.Kinds()
		e := domain.Event{Seq: 4, Kind: kinds[int(kind)%len(kinds)].Kind, Payload: p}
		for _, e := range append(base, e, domain.Event{Seq: 5, Kind: user, Payload: p}) {
			_ = tr.Apply(e)
		}
		checkWellFormedFuzz(t, tr)
	})
}

func checkWellFormedFuzz(t *testing.T, tr *domain.Transcript) {
	for _, m := range tr.Context(tr.Present(tr.Head(), nil)) {
		if len(m.Content) == 0 {
			t.Fatal("an empty message")
		}
	}
	_, _ = tr.Selection(tr.Present(tr.Head(), nil))
	_ = tr.Pending()
	_ = tr.Entries()
}
