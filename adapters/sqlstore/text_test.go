package sqlstore_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/keel-agent/keel/adapters/sqlstore"
)

func FuzzText(f *testing.F) {
	for _, s := range []string{"", "plain", "a\x00b", "\x01", "\x01\"x\"", "\xff\xfe", `\u0000`, "😀", "\"", "a\x01b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		stored := sqlstore.EncodeText(s)
		if !sqlstore.Storable(stored) || !utf8.ValidString(stored) || strings.ContainsRune(stored, 0) {
			t.Errorf("%q is stored as %q", s, stored)
		}
		if got, err := sqlstore.DecodeText(stored); err != nil || got != s {
			t.Errorf("%q came back as %q, error %v", s, got, err)
		}
	})
}

func TestPlainTextIsStoredAsItIs(t *testing.T) {
	for _, s := range []string{"", "plain", `"quoted" \ text`, "line\nline", "a\x01b", "\u00e9"} {
		if got := sqlstore.EncodeText(s); got != s {
			t.Errorf("%q is stored as %q", s, got)
		}
	}
}

func TestCorruptTextIsReported(t *testing.T) {
	if s, err := sqlstore.DecodeText("\x01not quoted"); err == nil {
		t.Errorf("%q", s)
	}
}
