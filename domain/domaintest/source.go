package domaintest

import (
	"math/rand/v2"

	"pgregory.net/rapid"
)

// Source makes the choices of a generator.
type Source interface {
	Int(n int) int // in [0,n)
}

// Rapid chooses by t, so that a failing history is shrunk.
func Rapid(t *rapid.T) Source { return rapidSource{t} }

type rapidSource struct{ t *rapid.T }

func (s rapidSource) Int(n int) int { return rapid.IntRange(0, n-1).Draw(s.t, "choice") }

// Seeded chooses by a fixed sequence: the same seed makes the same choices for ever.
func Seeded(seed uint64) Source { return &seeded{rand.NewPCG(seed, 0)} }

type seeded struct{ pcg *rand.PCG }

func (s *seeded) Int(n int) int { return int(s.pcg.Uint64() >> 1 % uint64(n)) }

func oneOf[T any](s Source, list []T) T { return list[s.Int(len(list))] }

// oneIn is true once in n times.
func oneIn(s Source, n int) bool { return s.Int(n) == n-1 }
