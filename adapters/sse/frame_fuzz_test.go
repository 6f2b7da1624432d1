package sse

import (
	"bytes"
	"strconv"
	"strings"
	"testing"

	gosse "github.com/tmaxmax/go-sse"

	"github.com/keel-agent/keel/domain"
)

// FuzzFrame holds what is written against an independent reader: whatever the data, it is one event with its id and
// nothing else, and a partial never moves the last event id.
func FuzzFrame(f *testing.F) {
	for _, data := range []string{"", "{}", "a\nb", "\r\n\r\n", "x\n\nid: 9\ndata: y", " lead", "\ufeff", "\x00", "event: drain\ndata: {}", "a\rb"} {
		f.Add(int64(1), []byte(data))
	}
	f.Fuzz(func(t *testing.T, seq int64, data []byte) {
		if seq < 1 {
			return
		}
		wire := appendEventFrame(nil, domain.Seq(seq), data)
		wire = append(wire, keepAliveFrame...)
		wire = appendPartialFrame(wire, data)
		want := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(string(data))
		id := strconv.FormatInt(seq, 10)
		var got []gosse.Event
		for e, err := range gosse.Read(bytes.NewReader(wire), &gosse.ReadConfig{MaxEventSize: 1 << 24}) {
			if err != nil {
				t.Fatalf("%v in %q", err, wire)
			}
			got = append(got, e)
		}
		if len(got) != 2 || got[0].Type != "" || got[1].Type != "partial" {
			t.Fatalf("%d events of %q: %+v", len(got), wire, got)
		}
		for _, e := range got {
			if e.Data != want || e.LastEventID != id {
				t.Fatalf("event %+v, want data %q and id %s", e, want, id)
			}
		}
	})
}
