package models_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/keel-agent/keel/adapters/memory"
	"github.com/keel-agent/keel/app/models"
	"github.com/keel-agent/keel/ports"
)

// The operator's own choices are held against the lists when these arrive: once, and nothing is refused for it.
func TestTheOperatorsChoicesAreDoubted(t *testing.T) {
	for _, c := range []struct {
		what    string
		list    []ports.Model // the first is the provider's default
		compact string
		want    []string
	}{
		{"all is there", []ports.Model{{ID: "small", Listed: true}}, "small", nil},
		{"nothing is chosen", []ports.Model{{ID: "small", Listed: true}}, "", nil},
		{"the provider lists nothing", []ports.Model{{ID: "smal"}}, "anything", nil},
		{
			"both are misspelt",
			[]ports.Model{{ID: "smal"}, {ID: "small", Listed: true}}, "smll",
			[]string{`there is no model "a/smal"; did you mean small?`, `there is no model "smll"; did you mean small?`},
		},
		{
			"at no provider",
			[]ports.Model{{ID: "small", Listed: true}}, "nosuch/x",
			[]string{`there is no model "nosuch/x", nor a provider "nosuch"; there is small`},
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			a := newHouse("a")
			a.list.Store(&c.list)
			core, logs := observer.New(zap.WarnLevel)
			started(t, models.Config{
				Settings: memory.New(memory.Config{}).Settings(), Providers: []ports.Provider{a}, Compact: c.compact, Log: zap.New(core),
			})
			time.Sleep(time.Hour)
			var got []string
			for _, entry := range logs.All() {
				got = append(got, entry.ContextMap()["problem"].(string))
			}
			require.Equal(t, c.want, got, c.what)
		})
	}
}
