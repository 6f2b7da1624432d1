package portstest

import (
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/domain/domaintest"
)

// hostile is JSON text that stores, drivers and mappers have altered or refused (K16, K26, K27, K40).
var hostile = []string{
	`{"text":"d\u0000i\u0000r\u0000"}`,
	`{"text":"\\u0000"}`,
	`{"text":"\\\\u0000 \\\u0000 \\\\\u0000"}`,
	`{"text":"\u0001\u0002\u001f\u007f` + "\ufffe\u2028\u2029\ufeff" + `"}`,
	`{"text":"? ?| ?& ?0 $1 $2 :name @p %s %d ' '' \\ \\\\ \" -- /* */ ;"}`,
	`{"text":"<script>&amp;</script>"}`,
	`{"text":"😀 👨‍👩‍👧 é e` + "\u0301" + ` \ud83d\ude00"}`,
	`{"text":"half \ud83d and \ude00"}`,
	`{"n":[9007199254740993,-0,1.0,1e400,1E+2,0.10,123456789012345678901234567890.5e-7,1e-1000000000]}`,
	`{"z":1,"a":{"y":[],"x":{}},"":"empty name","A":2,"\u0000":"name"}`,
	`{"text":"","null":null,"t":true,"f":false,"deep":[[[[[[[[[[]]]]]]]]]]}`,
	"{ \"spaced\" :\n[ 1 ,\t2 ] }",
}

// payloadFidelity: what was parsed is stored byte for byte in every kind, and equals its own retry.
func payloadFidelity(e *env) {
	ref := e.session()
	var want []string
	for _, text := range hostile {
		in := e.input("")
		in.Payload = domaintest.Payload(text).With("requestId", domaintest.Quote(in.RequestID))
		e.do(ref, in)
		want = append(want, in.Payload.String())
		e.unchanged(ref, in)
	}
	w := e.begin(ref)
	for _, text := range hostile {
		p := domaintest.AssistantFailed(nil, domain.StopError, "x").With("extra", domaintest.Payload(text).String())
		a := w.append(p)
		w.ok(a)
		e.unchanged(ref, a)
		want = append(want, p.String())
	}
	for _, text := range hostile {
		id := e.id("c")
		p := domaintest.AssistantCalls(nil, "x", domaintest.Call{ID: id, Name: "tool", Arguments: domaintest.Payload(text).String()})
		w.ok(w.append(p))
		r := w.result(id)
		r.Payload = r.Payload.With("extra", domaintest.Payload(text).String())
		w.ok(r)
		e.unchanged(ref, r)
		want = append(want, p.String(), r.Payload.String())
	}
	ext := e.session(external)
	for _, text := range hostile {
		p := domaintest.External("x").With("extra", domaintest.Payload(text).String())
		e.do(ext, domain.AppendExternal{At: e.at(), RequestID: e.id("x"), Payload: p})
		want = append(want, p.String())
	}
	var got []string
	for _, ev := range append(e.events(ref), e.events(ext)...) {
		got = append(got, ev.Payload.String())
	}
	require.Equal(e, want, got)

	meta := domaintest.Payload(hostile[8])
	e.do(ref, domain.PatchSession{Metadata: &meta})
	require.Equal(e, meta.String(), e.row(ref).Metadata.String())
}

// idFidelity: every id that the edge accepts works everywhere.
func idFidelity(e *env) {
	process := e.process()
	for _, id := range []string{
		"it's", `a"b\c`, "?", "$1", ":name", "100%_", "--", "a;b", "ünï", "UPPER", "upper", strings.Repeat("😀", domain.MaxKeyLength), "a/b/..", "{}",
	} {
		ref := domain.SessionRef{Tenant: "T" + id, Session: id}
		if len(id) > 200 {
			ref.Tenant = id
		}
		e.do(ref, domain.CreateSession{At: e.at(), Request: domaintest.Payload(`{}`), Info: domain.SessionInfo{Title: id, Tools: []string{id}}})
		e.do(ref, domain.SubmitInput{At: e.at(), RequestID: id, Payload: domaintest.User(id, id), NewRun: e.id("r")})
		w := e.begin(ref, process)
		a := w.calling([]domain.Seq{1}, id)
		a.GenerationID = id
		w.ok(a)
		e.unchanged(ref, a)
		w.ok(w.result(id))
		row := e.row(ref)
		require.Equal(e, ref, row.Ref)
		require.Equal(e, id, row.Title)
		require.Equal(e, []string{id}, row.Tools)
		require.Equal(e, []string{"requestId:" + id, "generationId:" + id, "toolCallId:" + id}, keysOf(e.events(ref)))
	}
}

// largePayloads: around the limits of notifications and pages of real stores, and at the limit of a payload.
func largePayloads(e *env) {
	ref := e.session()
	for i, size := range []int{7_900, 7_990, 7_999, 8_000, 8_191, 8_192, 100_000, 1_000_000, domain.DefaultMaxPayload - 100} {
		in := e.input(strings.Repeat("x", size))
		e.do(ref, in)
		page, err := e.Ledger.Events(e.ctx, ref, domain.Seq(i), 1)
		require.NoError(e, err)
		require.Len(e, page, 1)
		require.True(e, in.Payload.String() == page[0].Payload.String(), "the payload of %d bytes differs", size)
	}
}
