package builtin

import (
	"context"
	"fmt"
	"time"
	_ "time/tzdata" // servers without a zone database have the zones, too

	"github.com/keel-agent/keel/adapters/tools/toolset"
	"github.com/keel-agent/keel/ports"
)

var timeSpec = ports.ToolSpec{
	Name:        "time",
	Description: "Tells the current date and time in RFC 3339, in UTC or in a given time zone.",
	Schema: `{"type":"object","properties":{"zone":{"type":"string","maxLength":64,` +
		`"description":"IANA name of a time zone, for instance Europe/Oslo; UTC when absent"}},"additionalProperties":false}`,
	ReplaySafe: true,
}

// zoned tells the time of its clock in any zone.
type zoned struct{ clock ports.Clock }

func (z zoned) time(_ context.Context, call toolset.Call) (string, error) {
	zone := call.Args.Text("zone")
	if zone == "Local" { // the server's own zone is nobody's business
		zone = "?"
	}
	location, err := time.LoadLocation(zone) // "" is UTC
	if err != nil {
		return "", fmt.Errorf("there is no time zone named %q; use an IANA name such as Europe/Oslo", call.Args.Text("zone"))
	}
	return z.clock.Now().In(location).Format(time.RFC3339), nil
}
