package sqlstore

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/keel-agent/keel/domain"
)

// encodeSeqs returns seqs as a compact JSON array, "[]" when there are none.
func encodeSeqs(seqs []domain.Seq) string {
	b := make([]byte, 0, 2+4*len(seqs))
	b = append(b, '[')
	for i, s := range seqs {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(s), 10)
	}
	return string(append(b, ']'))
}

// decodeSeqs is the inverse of encodeSeqs; an empty array is nil.
func decodeSeqs(stored string) ([]domain.Seq, error) {
	inner, ok := strings.CutPrefix(stored, "[")
	inner, closed := strings.CutSuffix(inner, "]")
	if !ok || !closed {
		return nil, fmt.Errorf("stored seq array %q: not an array", stored)
	}
	if inner == "" {
		return nil, nil
	}
	seqs := make([]domain.Seq, 0, 1+strings.Count(inner, ","))
	for part := range strings.SplitSeq(inner, ",") {
		n, err := strconv.ParseInt(part, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("stored seq array %q: %w", stored, err)
		}
		seqs = append(seqs, domain.Seq(n))
	}
	return seqs, nil
}

func optionalSeq(n *int64) *domain.Seq {
	if n == nil {
		return nil
	}
	s := domain.Seq(*n)
	return &s
}

func nullableSeq(s *domain.Seq) *int64 {
	if s == nil {
		return nil
	}
	n := int64(*s)
	return &n
}
