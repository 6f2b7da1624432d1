package postgres

import (
	"errors"
	"maps"
	"strings"
	"testing"
)

func TestCheckSettings(t *testing.T) {
	good := map[string]string{"fsync": "on", "full_page_writes": "on", "synchronous_commit": "local", "server_encoding": "UTF8"}
	if err := checkSettings(good); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"fsync": "off", "full_page_writes": "off", "synchronous_commit": "off", "server_encoding": "LATIN1",
	} {
		bad := maps.Clone(good)
		bad[name] = value
		err := checkSettings(bad)
		if !errors.Is(err, ErrUnsafe) || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "--allow-unsafe-postgres") {
			t.Errorf("%s=%s: error %v", name, value, err)
		}
	}
}
