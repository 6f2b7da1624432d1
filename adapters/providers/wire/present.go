package wire

import "strings"

// InputSchema returns the schema of a tool's input as strict backends want it: one that says that it is of an object.
func InputSchema(schema string) Raw {
	const object = `{"type":"object"`
	raw := Raw(strings.TrimSpace(CleanJSON(schema)))
	switch members := Object(raw); {
	case len(members) == 0:
		return Raw(object + `,"properties":{}}`)
	case IsNull(members["type"]):
		return Raw(object + "," + string(raw[1:]))
	}
	return raw
}
