package domain

import "strconv"

// Selection is what an input may choose for the turn that answers it. Unset fields leave the session's choice.
type Selection struct {
	Model       string
	Thinking    string
	Temperature *float64
	MaxTokens   int
	Tools       []string
	HasTools    bool // tools was given, perhaps empty
}

// ParseSelection reads the selection of a user.message; "" is the empty selection. It returns ErrInvalidPayload when a
// known member has the wrong type. Unknown members belong to others.
func ParseSelection(raw string) (Selection, error) {
	if raw == "" {
		return Selection{}, nil
	}
	r := newReader(StoredPayload(raw))
	s := Selection{Model: r.text("model"), Thinking: r.text("thinking"), MaxTokens: int(r.count("maxTokens"))}
	s.Temperature = r.temperature("temperature")
	if list, ok := r.o.get("tools"); ok {
		s.HasTools = true
		names, err := elements(list)
		for _, raw := range names {
			name, bad := unquoteJSON(raw)
			if bad != nil {
				err = bad
			}
			s.Tools = append(s.Tools, name)
		}
		if err != nil {
			r.fail("tools", "must be an array of strings")
		}
	}
	return s, r.err
}

func (r *reader) temperature(name string) *float64 {
	raw, ok := r.o.get(name)
	if !ok {
		return nil
	}
	f, err := strconv.ParseFloat(raw, 64)
	if err != nil || kindOf(raw) != '0' {
		r.fail(name, "must be a number")
	}
	return &f
}
