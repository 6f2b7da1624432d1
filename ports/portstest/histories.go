package portstest

import (
	"crypto/sha256"
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/domain/domaintest"
)

//go:embed testdata/*.golden
var goldens embed.FS

// Generated histories are made from these seeds, each of so many steps.
const (
	seeds      = 24
	seedLength = 120
)

// TestHistories gives the scripted and the generated histories to stores and compares the transcripts with the goldens,
// byte for byte. A generated one is also compared line by line with what the World makes of it, so that a difference
// shows where it begins.
func TestHistories(t *testing.T, open Open) {
	for _, s := range scripts {
		t.Run(s.name, func(t *testing.T) {
			want, err := goldens.ReadFile("testdata/" + s.name + ".golden")
			require.NoError(t, err)
			require.Equal(t, string(want), RunHistory(t.Context(), open(t), s.steps()))
		})
	}
	t.Run("generated", func(t *testing.T) {
		golden, err := goldens.ReadFile("testdata/generated.golden")
		require.NoError(t, err)
		sums := strings.Split(strings.TrimSuffix(string(golden), "\n"), "\n")
		require.Len(t, sums, seeds)
		for seed := range seeds {
			if testing.Short() && seed >= 6 {
				break
			}
			history := generated(t, seed)
			want := transcribe(worldPlayer{domaintest.NewWorld()}, history)
			got := RunHistory(t.Context(), open(t), history)
			require.Equal(t, want, got, "seed %d", seed)
			require.Equal(t, sums[seed], sum(seed, got), "the domain decides otherwise than when the golden was written")
		}
	})
}

// UpdateHistories writes the goldens into dir from what a store answers. Only the reference implementation does that.
func UpdateHistories(t *testing.T, open Open, dir string) {
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name+".golden"), []byte(text), 0o644))
	}
	for _, s := range scripts {
		write(s.name, RunHistory(t.Context(), open(t), s.steps()))
	}
	var sums strings.Builder
	for seed := range seeds {
		fmt.Fprintln(&sums, sum(seed, RunHistory(t.Context(), open(t), generated(t, seed))))
	}
	write("generated", sums.String())
}

func sum(seed int, transcript string) string {
	return fmt.Sprintf("%d %x", seed, sha256.Sum256([]byte(transcript)))
}

func generated(t *testing.T, seed int) []domaintest.Step {
	g := domaintest.NewGenerator(domaintest.Seeded(uint64(seed)), domaintest.Options{Sessions: 3, External: true, Budget: 3})
	for range seedLength {
		require.NoError(t, g.Step())
	}
	require.NoError(t, g.Finish())
	return g.Steps
}
