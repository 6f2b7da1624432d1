package domain_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/domain/domaintest"
)

// K16, as a tool's result under one toolCallId: what is the same payload, and what is none at all.
func TestK16SameResult(t *testing.T) {
	result := func(members string) string {
		return `{"toolCallId":"c1","content":[{"type":"text","text":"x"}],"isError":false,` + members + `}`
	}
	for name, c := range map[string]struct {
		first, second string
		bad           bool  // the first is no payload
		want          error // of the second
	}{
		"A big integers":    {`"n":9007199254740993`, `"n":9007199254740992`, false, domain.ErrIdempotencyConflict},
		"B 1.0 and 1":       {`"n":1.0`, `"n":1`, false, nil},
		"C duplicate keys":  {`"d":1,"d":2`, `"d":2`, true, nil},
		"D lone surrogates": {`"s":"\ud83d"`, `"s":"\ufffd"`, false, nil},
		"E huge exponent":   {`"m":1e400`, `"m":1e400`, false, nil},
		"F case of keys":    {`"isERROR":true`, `"ISERROR":true`, false, domain.ErrIdempotencyConflict},
		"G order":           {`"b":1, "a":2`, `"a":2,"b":1`, false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			first, err := domain.ParsePayload([]byte(result(c.first)), 0)
			if c.bad {
				require.ErrorIs(t, err, domain.ErrInvalidJSON)
				return
			}
			require.NoError(t, err)
			second, err := domain.ParsePayload([]byte(result(c.second)), 0)
			require.NoError(t, err)
			out, err := domain.ParseToolOutput(first)
			require.NoError(t, err)
			require.False(t, out.IsError, "names of members are exact")

			v := calling()
			v.Calls = v.Calls[:1]
			cmd := domain.AppendToolResult{At: noon, Run: "R1", Token: held, Call: "c1", Payload: first}
			fx, err := domain.Decide(v, cmd)
			require.NoError(t, err)
			v.Event = &fx.Events[0]
			cmd.Payload = second
			fx, err = domain.Decide(v, cmd)
			require.ErrorIs(t, err, c.want)
			require.Empty(t, fx.Events, "nothing is written twice")
		})
	}
}

// K15, 7: a kind without a key takes none, and a kind takes no key of another one.
func TestK15KeysOfOtherKinds(t *testing.T) {
	for kind, payload := range map[domain.Kind]domain.Payload{
		domain.AssistantMessage: domaintest.AssistantText(seqs(4, 4), "x").With("generationId", `"other"`),
		domain.ToolResult:       domaintest.Result("other", "x"),
	} {
		v, cmd := calling(), domain.Command(domain.AppendToolResult{At: noon, Run: "R1", Token: held, Call: "c1", Payload: payload})
		if kind == domain.AssistantMessage {
			v, cmd = running(), domain.AppendAssistant{At: noon, Run: "R1", Token: held, GenerationID: "g", Payload: payload}
		}
		fx, err := domain.Decide(v, cmd)
		require.Error(t, err, kind)
		require.Empty(t, fx.Events)
	}
	for _, def := range domain.Kinds() {
		if def.Kind == domain.Compaction || def.Kind == domain.RunFinished {
			require.Equal(t, domain.NoKey, def.Key, "it has no key, and its command no place for one")
		}
	}
}
